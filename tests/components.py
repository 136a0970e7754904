"""Arguments for one example of every hardware component and signature."""

from multitree.nic.config import Config

__all__ = ["COMPONENTS", "SIGNATURES"]

CONFIG = {"config": Config()}
CONFIG_PORT = {"config": Config(), "port": 1}
CONFIG_CLIENTS = {"config": Config(), "num_clients": 5}
AGE_OFFSETS = {"sequence_offset": 34, "step_offset": 16}
SWITCH = {"num_ports": 3, "num_vcs": 4, "flit_bytes": 16, "route_offset": 74, "num_hops": 9}

COMPONENTS = {
    "hw.arbiter.RoundRobin": {"count": 3},
    "hw.axi_burst.BurstBuilder": {"address_width": 12, "flit_bytes": 16, "gather_cycles": 3},
    "hw.axi_lite.AxiLiteSubordinate": {"address_width": 12},
    "hw.axi_reader.AxiReader": {"address_width": 12, "flit_bytes": 16, "depth": 32},
    "hw.axi_writer.AxiWriter": {"address_width": 12, "flit_bytes": 16, "depth": 32},
    "hw.crossing.LinkCrossing": {"flit_bytes": 16, "depth": 16},
    "hw.float_add.FloatAdder": {"exponent_width": 8, "fraction_width": 23},
    "hw.lanes.LaneUnit": {"flit_bytes": 16},
    "hw.link_check.RunningCheck": {"flit_bytes": 16, "submessage_flits": 4},
    "hw.link_check.VcCheck": {"num_vcs": 4, "flit_bytes": 16, "submessage_flits": 4},
    "hw.link_receiver.LinkReceiver": {"flit_bytes": 16, "depth": 8, "submessage_flits": 4},
    "hw.link_session.LinkSession": {"flit_bytes": 16},
    "hw.link_transmitter.LinkTransmitter": {"flit_bytes": 16, "credits": 8, "submessage_flits": 4},
    "hw.stream.Fifo": {"shape": 8, "depth": 4},
    "hw.stream.QuickFifo": {"shape": 8, "depth": 4},
    "hw.stream.Register": {"shape": 8},
    "hw.switch.Switch": SWITCH | {"depth": 8, "submessage_flits": 4, **AGE_OFFSETS},
    "hw.switch_allocator.Ages": {"count": 3},
    "hw.switch_allocator.OldestFirst": {"count": 3},
    "hw.switch_fabric.SwitchFabric": SWITCH | AGE_OFFSETS,
    "hw.switch_faults.SwitchFaults": {"num_ports": 3, "flit_bytes": 16},
    "hw.switch_input.SwitchInput": SWITCH | {"port": 1, "vc": 3},
    "hw.switch_output.SwitchOutput": {"num_inputs": 8, "num_vcs": 4, "flit_bytes": 16},
    "hw.vc_port.VcPort": {"num_vcs": 4, "flit_bytes": 16, "depth": 8, "submessage_flits": 4},
    "hw.vc_receiver.VcReceiver": {
        "num_vcs": 4,
        "flit_bytes": 16,
        "depth": 8,
        "submessage_flits": 4,
    },
    "hw.vc_transmitter.VcTransmitter": {
        "num_vcs": 4,
        "flit_bytes": 16,
        "credits": 8,
        "submessage_flits": 4,
    },
    "nic.admission.Admission": CONFIG_PORT,
    "nic.axi_interface.AxiInterface": CONFIG,
    "nic.checker.Checker": CONFIG,
    "nic.checks.FlowCheck": CONFIG,
    "nic.checks.RowCheck": CONFIG,
    "nic.checks.SettingsCheck": CONFIG,
    "nic.control.Control": CONFIG,
    "nic.core.Core": CONFIG,
    "nic.counters.PortCounters": CONFIG,
    "nic.drain.Drain": CONFIG,
    "nic.expectation.Expectation": {"port": 1},
    "nic.fetcher.Fetcher": CONFIG,
    "nic.framer.Framer": CONFIG,
    "nic.interface.Interface": CONFIG,
    "nic.issuer.Issuer": CONFIG,
    "nic.ledger.Ledger": CONFIG,
    "nic.memories.BankedMemory": {"depth": 6, "num_words": 2},
    "nic.memories.FlowMemory": CONFIG_CLIENTS,
    "nic.memories.TableMemory": CONFIG,
    "nic.memory_guard.MemoryGuard": CONFIG,
    "nic.monitor.FaultMonitor": CONFIG,
    "nic.monitor.Watchdog": {},
    "nic.port.Port": CONFIG_PORT,
    "nic.receiver.Receiver": CONFIG_PORT,
    "nic.relay.FaultRelay": CONFIG,
    "nic.reducer.Acknowledger": CONFIG,
    "nic.reducer.Reducer": CONFIG,
    "nic.register_file.RegisterFile": {
        "address_width": 20,
        "table_depth": 6,
        "num_flows": 4,
        "num_ports": 3,
    },
    "nic.sender.Sender": CONFIG,
    "nic.snapshot.Snapshot": {},
    "nic.steps.StepCounter": CONFIG,
    "nic.tables.Tables": CONFIG,
    "nic.tracker.DependencyTracker": CONFIG_CLIENTS,
}
"""Arguments of every component of `hw` and `nic`, by its dotted name."""

SIGNATURES = {
    "hw.axi.AxiReadSignature": {"address_width": 16, "data_bytes": 16},
    "hw.axi.AxiSignature": {"address_width": 16, "data_bytes": 16},
    "hw.axi.AxiWriteSignature": {"address_width": 16, "data_bytes": 16},
    "hw.axi_lite.AxiLiteSignature": {"address_width": 12},
    "hw.axi_lite.RegisterRequestSignature": {"address_width": 12},
    "hw.axi_lite.RegisterResponseSignature": {},
    "hw.link.ControlSignature": {"flit_bytes": 16},
    "hw.link.LinkSignature": {"flit_bytes": 16},
    "hw.memory_channel.ReadChannelSignature": {"address_width": 8, "flit_bytes": 16},
    "hw.memory_channel.WriteChannelSignature": {"address_width": 8, "flit_bytes": 16},
    "nic.axi_interface.AxiPortSignature": CONFIG,
    "nic.counters.ActivitySignature": CONFIG,
    "nic.interface.MonitorSignature": {},
    "nic.layouts.ArrivalSignature": CONFIG,
    "nic.layouts.LookupSignature": {},
    "nic.layouts.MemorySignature": CONFIG,
    "nic.layouts.MemoryReadSignature": CONFIG,
    "nic.layouts.MemoryWriteSignature": CONFIG,
    "nic.layouts.QuerySignature": CONFIG,
    "nic.layouts.RunSignature": CONFIG,
    "nic.layouts.WaitSignature": {},
}
"""Arguments of every signature of `hw` and `nic`, by its dotted name."""
