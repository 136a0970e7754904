"""Arguments for one example of every hardware component and signature."""

from multitree.hw.stream import QuickFifo
from multitree.nic.driver.config import Config
from multitree.topology.collectives import Op

__all__ = ["ALSO", "COMPONENTS", "SIGNATURES"]

CONFIG = {"config": Config()}
SHARED = {"config": Config(num_classes=1)}
FORWARDING = {"config": Config(forward_flits=64)}
CONFIG_CLIENTS = {"config": Config(), "num_clients": 5}
LINK = {"num_vcs": 4, "flit_bytes": 16, "submessage_flits": 4}
REGISTER_FILE = {"address_width": 20, "table_depth": 6, "num_flows": 4, "num_ports": 3}
AGE_OFFSETS = {"sequence_offset": 40, "step_offset": 16}
SWITCH = {"num_ports": 3, "num_vcs": 4, "flit_bytes": 16, "route_offset": 74, "num_hops": 9}

COMPONENTS = {
    "hw.arbiter.RoundRobin": {"count": 3},
    "hw.axi.bursts.BurstBuilder": {"address_width": 12, "flit_bytes": 16, "gather_cycles": 3},
    "hw.axi.lite.AxiLiteSubordinate": {"address_width": 12},
    "hw.axi.bursts.AxiReader": {"address_width": 12, "flit_bytes": 16, "depth": 32},
    "hw.axi.bursts.AxiWriter": {"address_width": 12, "flit_bytes": 16, "depth": 32},
    "hw.check_bits.Checked": {"queue": QuickFifo, "shape": 8, "depth": 4},
    "hw.link.crossing.LinkCrossing": {"flit_bytes": 16, "depth": 16},
    "hw.float_add.FloatAdder": {"exponent_width": 8, "fraction_width": 23},
    "hw.lanes.LaneUnit": {"flit_bytes": 16},
    "hw.link.check.RunningCheck": LINK,
    "hw.link.port.LinkSession": {"flit_bytes": 16},
    "hw.memory_channel.ReadShare": {"address_width": 12, "flit_bytes": 16, "depth": 8},
    "hw.stream.CutFifo": {"shape": 8, "depth": 4},
    "hw.stream.Fifo": {"shape": 8, "depth": 4},
    "hw.stream.QuickFifo": {"shape": 8, "depth": 4},
    "hw.stream.Register": {"shape": 8},
    "hw.switch.switch.Switch": SWITCH | {"depth": 8, "submessage_flits": 4, **AGE_OFFSETS},
    "hw.arbiter.Ages": {"count": 3},
    "hw.arbiter.OldestFirst": {"count": 3},
    "hw.switch.fabric.SwitchFabric": SWITCH | AGE_OFFSETS,
    "hw.switch.faults.SwitchFaults": {"num_ports": 3, "flit_bytes": 16},
    "hw.switch.input.SwitchInput": SWITCH | {"port": 1, "vc": 3},
    "hw.switch.output.SwitchOutput": {"num_inputs": 8, "num_vcs": 4, "flit_bytes": 16},
    "hw.link.port.LinkPort": LINK | {"depth": 8},
    "hw.link.receiver.LinkReceiver": LINK | {"depth": 8},
    "hw.link.transmitter.LinkTransmitter": LINK | {"credits": 8},
    "nic.receive.header_check.HeaderCheck": CONFIG,
    "nic.receive.head_reader.HeadReader": FORWARDING,
    "nic.interface.AxiInterface": CONFIG,
    "nic.control.checker.Checker": CONFIG,
    "nic.control.checker.FlowCheck": CONFIG,
    "nic.control.checker.RowCheck": CONFIG,
    "nic.control.checker.SettingsCheck": CONFIG,
    "nic.control.checker.SharedFlowCheck": SHARED,
    "nic.reduce.sequencer.ReductionSequencer": SHARED,
    "nic.control.collective.Control": CONFIG,
    "nic.top.core.Core": CONFIG,
    "nic.control.counters.PortCounters": CONFIG,
    "nic.interface.Drain": CONFIG,
    "nic.receive.duplicate_filter.Expectation": {},
    "nic.send.fetcher.Fetcher": CONFIG,
    "nic.send.pipelined_fetcher.PipelinedFetcher": FORWARDING,
    "nic.forward.chunk_finder.ChunkFinder": FORWARDING,
    "nic.forward.chunk_reader.ChunkReader": FORWARDING,
    "nic.forward.chunk_source.ChunkSource": FORWARDING | {"op": Op.REDUCE},
    "nic.forward.chunk_reader.LocalReader": FORWARDING,
    "nic.forward.chunk_reader.MergedQueue": FORWARDING,
    "nic.forward.positions.RecentWrites": FORWARDING | {"num_readers": 2},
    "nic.reduce.forwarding_reducer.WriteOrder": FORWARDING,
    "nic.receive.forwarding_header_check.ForwardingHeaderCheck": FORWARDING,
    "nic.receive.receiver.ForwardingReceiver": FORWARDING,
    "nic.reduce.forwarding_reducer.ForwardingReducer": FORWARDING,
    "nic.send.sender.ForwardingSender": FORWARDING,
    "nic.send.sender.Framer": SHARED,
    "nic.interface.Interface": CONFIG,
    "nic.send.issuer.Issuer": CONFIG,
    "nic.receive.duplicate_filter.DuplicateFilter": CONFIG,
    "nic.control.memories.BankedMemory": {"depth": 6, "num_words": 2},
    "nic.control.memories.FlowMemory": CONFIG_CLIENTS,
    "nic.control.memories.TableMemory": CONFIG,
    "nic.top.port.MemoryGuard": CONFIG,
    "nic.control.monitor.FaultMonitor": CONFIG,
    "nic.control.monitor.Watchdog": {},
    "nic.top.port.Port": CONFIG,
    "nic.receive.receiver.Receiver": CONFIG,
    "nic.receive.header_lookup.HeaderLookup": SHARED,
    "nic.control.monitor.FaultRelay": CONFIG,
    "nic.reduce.reducer.Acknowledger": CONFIG,
    "nic.reduce.reducer.Reducer": CONFIG,
    "nic.control.register_file.RegisterFile": REGISTER_FILE,
    "nic.send.sender.Sender": SHARED,
    "nic.receive.shared_receiver.SharedHeaderCheck": SHARED | {"unwritten_width": 8},
    "nic.receive.shared_lane.SharedLane": {"config": Config(num_classes=1), "unwritten_width": 8},
    "nic.top.shared_core.SharedCore": SHARED,
    "nic.receive.shared_receiver.SharedReceiver": SHARED,
    "nic.control.register_file.Snapshot": {},
    "nic.reduce.reorder_buffer.ReorderBuffer": SHARED,
    "nic.send.rows.StepCounter": CONFIG,
    "nic.control.memories.Tables": CONFIG,
    "nic.control.tracker.DependencyTracker": CONFIG_CLIENTS,
    "nic.send.rows.WaveOffset": {"config": Config(wave_width=8)},
}
"""Arguments of every component of `hw` and `nic`, by its dotted name."""

ALSO = {
    "nic.top.port.Port": (SHARED, FORWARDING),
    "hw.check_bits.Checked": ({"queue": QuickFifo, "shape": 8, "depth": 4, "has_parity": True},),
}
"""More examples of those that have other members with other parameters."""

SIGNATURES = {
    "hw.axi.channels.AxiReadSignature": {"address_width": 16, "data_bytes": 16},
    "hw.axi.channels.AxiSignature": {"address_width": 16, "data_bytes": 16},
    "hw.axi.channels.AxiWriteSignature": {"address_width": 16, "data_bytes": 16},
    "hw.axi.lite.AxiLiteSignature": {"address_width": 12},
    "hw.axi.lite.RegisterRequestSignature": {"address_width": 12},
    "hw.axi.lite.RegisterResponseSignature": {},
    "hw.link.link.ControlSignature": {"flit_bytes": 16},
    "hw.link.link.LinkSignature": {"flit_bytes": 16},
    "hw.memory_channel.ReadChannelSignature": {"address_width": 8, "flit_bytes": 16},
    "hw.memory_channel.WriteChannelSignature": {"address_width": 8, "flit_bytes": 16},
    "nic.interface.AxiPortSignature": CONFIG,
    "nic.signatures.ReservationSignature": {},
    "nic.signatures.TurnSignature": {},
    "nic.control.counters.ActivitySignature": CONFIG,
    "nic.interface.MonitorSignature": SHARED,
    "nic.signatures.ArrivalSignature": CONFIG,
    "nic.forward.positions.ForwardSignature": FORWARDING,
    "nic.signatures.LookupSignature": {},
    "nic.signatures.MemorySignature": CONFIG,
    "nic.signatures.MemoryReadSignature": CONFIG,
    "nic.signatures.MemoryWriteSignature": CONFIG,
    "nic.forward.positions.PositionsSignature": FORWARDING,
    "nic.signatures.QuerySignature": CONFIG | {"width": 20},
    "nic.signatures.ReportSignature": {"width": 20},
    "nic.signatures.RunSignature": SHARED,
    "nic.signatures.WaitSignature": {"config": Config(wave_width=8)},
}
"""Arguments of every signature of `hw` and `nic`, by its dotted name."""
