"""Arguments for one example of every hardware component and signature."""

from multitree.hw.stream import QuickFifo
from multitree.nic.config import Config
from multitree.topology.collectives import Op

__all__ = ["ALSO", "COMPONENTS", "SIGNATURES"]

CONFIG = {"config": Config()}
SHARED = {"config": Config(num_classes=1)}
FORWARDING = {"config": Config(forward_flits=64)}
CONFIG_CLIENTS = {"config": Config(), "num_clients": 5}
AGE_OFFSETS = {"sequence_offset": 40, "step_offset": 16}
SWITCH = {"num_ports": 3, "num_vcs": 4, "flit_bytes": 16, "route_offset": 74, "num_hops": 9}

COMPONENTS = {
    "hw.arbiter.RoundRobin": {"count": 3},
    "hw.axi.burst.BurstBuilder": {"address_width": 12, "flit_bytes": 16, "gather_cycles": 3},
    "hw.axi.lite.AxiLiteSubordinate": {"address_width": 12},
    "hw.axi.reader.AxiReader": {"address_width": 12, "flit_bytes": 16, "depth": 32},
    "hw.axi.writer.AxiWriter": {"address_width": 12, "flit_bytes": 16, "depth": 32},
    "hw.checked_queue.Checked": {"queue": QuickFifo, "shape": 8, "depth": 4},
    "hw.link.crossing.LinkCrossing": {"flit_bytes": 16, "depth": 16},
    "hw.float_add.FloatAdder": {"exponent_width": 8, "fraction_width": 23},
    "hw.lanes.LaneUnit": {"flit_bytes": 16},
    "hw.link.check.RunningCheck": {"num_vcs": 4, "flit_bytes": 16, "submessage_flits": 4},
    "hw.link.session.LinkSession": {"flit_bytes": 16},
    "hw.memory_channel.ReadShare": {"address_width": 12, "flit_bytes": 16, "depth": 8},
    "hw.stream.Fifo": {"shape": 8, "depth": 4},
    "hw.stream.QuickFifo": {"shape": 8, "depth": 4},
    "hw.stream.Register": {"shape": 8},
    "hw.switch.switch.Switch": SWITCH | {"depth": 8, "submessage_flits": 4, **AGE_OFFSETS},
    "hw.switch.allocator.Ages": {"count": 3},
    "hw.switch.allocator.OldestFirst": {"count": 3},
    "hw.switch.fabric.SwitchFabric": SWITCH | AGE_OFFSETS,
    "hw.switch.faults.SwitchFaults": {"num_ports": 3, "flit_bytes": 16},
    "hw.switch.input.SwitchInput": SWITCH | {"port": 1, "vc": 3},
    "hw.switch.output.SwitchOutput": {"num_inputs": 8, "num_vcs": 4, "flit_bytes": 16},
    "hw.link.port.LinkPort": {"num_vcs": 4, "flit_bytes": 16, "depth": 8, "submessage_flits": 4},
    "hw.link.receiver.LinkReceiver": {
        "num_vcs": 4,
        "flit_bytes": 16,
        "depth": 8,
        "submessage_flits": 4,
    },
    "hw.link.transmitter.LinkTransmitter": {
        "num_vcs": 4,
        "flit_bytes": 16,
        "credits": 8,
        "submessage_flits": 4,
    },
    "nic.receive.header_check.HeaderCheck": CONFIG,
    "nic.axi_interface.AxiInterface": CONFIG,
    "nic.control.checker.Checker": CONFIG,
    "nic.control.checker.FlowCheck": CONFIG,
    "nic.control.checker.RowCheck": CONFIG,
    "nic.control.checker.SettingsCheck": CONFIG,
    "nic.control.checker.SharedFlowCheck": SHARED,
    "nic.reduce.sequencer.ReductionSequencer": SHARED,
    "nic.control.control.Control": CONFIG,
    "nic.top.core.Core": CONFIG,
    "nic.control.counters.PortCounters": CONFIG,
    "nic.interface.Drain": CONFIG,
    "nic.receive.scoreboard.Expectation": {},
    "nic.send.fetcher.Fetcher": CONFIG,
    "nic.forward.chunk_finder.ChunkFinder": FORWARDING,
    "nic.forward.chunk_reader.ChunkReader": FORWARDING,
    "nic.forward.chunk_source.ChunkSource": FORWARDING | {"op": Op.REDUCE},
    "nic.forward.local_reader.LocalReader": FORWARDING,
    "nic.forward.merged_queue.MergedQueue": FORWARDING,
    "nic.forward.recent_writes.RecentWrites": FORWARDING | {"num_readers": 2},
    "nic.forward.write_order.WriteOrder": FORWARDING,
    "nic.receive.forwarding_header_check.ForwardingHeaderCheck": FORWARDING,
    "nic.receive.forwarding_receiver.ForwardingReceiver": FORWARDING,
    "nic.reduce.forwarding_reducer.ForwardingReducer": FORWARDING,
    "nic.send.forwarding_sender.ForwardingSender": FORWARDING,
    "nic.send.framer.Framer": SHARED,
    "nic.interface.Interface": CONFIG,
    "nic.send.issuer.Issuer": CONFIG,
    "nic.receive.scoreboard.Scoreboard": CONFIG,
    "nic.control.memories.BankedMemory": {"depth": 6, "num_words": 2},
    "nic.control.memories.FlowMemory": CONFIG_CLIENTS,
    "nic.control.memories.TableMemory": CONFIG,
    "nic.top.memory_guard.MemoryGuard": CONFIG,
    "nic.control.monitor.FaultMonitor": CONFIG,
    "nic.control.monitor.Watchdog": {},
    "nic.top.port.Port": CONFIG,
    "nic.receive.receiver.Receiver": CONFIG,
    "nic.receive.header_lookup.HeaderLookup": SHARED,
    "nic.control.monitor.FaultRelay": CONFIG,
    "nic.reduce.reducer.Acknowledger": CONFIG,
    "nic.reduce.reducer.Reducer": CONFIG,
    "nic.control.register_file.RegisterFile": {
        "address_width": 20,
        "table_depth": 6,
        "num_flows": 4,
        "num_ports": 3,
    },
    "nic.send.sender.Sender": SHARED,
    "nic.receive.shared_header_check.SharedHeaderCheck": SHARED | {"unwritten_width": 8},
    "nic.receive.shared_lane.SharedLane": {"config": Config(num_classes=1), "unwritten_width": 8},
    "nic.top.shared_core.SharedCore": SHARED,
    "nic.receive.shared_receiver.SharedReceiver": SHARED,
    "nic.control.register_file.Snapshot": {},
    "nic.reduce.reorder_buffer.ReorderBuffer": SHARED,
    "nic.send.steps.StepCounter": CONFIG,
    "nic.control.tables.Tables": CONFIG,
    "nic.control.tracker.DependencyTracker": CONFIG_CLIENTS,
    "nic.send.wave_offset.WaveOffset": {"config": Config(wave_width=8)},
}
"""Arguments of every component of `hw` and `nic`, by its dotted name."""

ALSO = {"nic.top.port.Port": (SHARED, FORWARDING)}
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
    "nic.axi_interface.AxiPortSignature": CONFIG,
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
