"""One example of every component and signature of the hw room, to test its members."""

COMPONENTS = {
    "hw.arbiter.RoundRobin": lambda block: block(count=3),
    "hw.axi_lite.AxiLiteSubordinate": lambda block: block(address_width=8),
    "hw.float_add.Fp32Adder": lambda block: block(),
    "hw.lanes.LaneAdder": lambda block: block(flit_bytes=8),
    "hw.link.LinkReceiver": lambda block: block(flit_bytes=4, depth=4),
    "hw.link.LinkTransmitter": lambda block: block(flit_bytes=4, credits=4),
    "hw.stream.Fifo": lambda block: block(shape=8, depth=4),
    "hw.stream.Register": lambda block: block(shape=8),
}

SIGNATURES = {
    "hw.axi_lite.AxiLiteSignature": lambda bus: bus(address_width=8),
    "hw.axi_lite.RegisterRequestSignature": lambda request: request(address_width=8),
    "hw.axi_lite.RegisterResponseSignature": lambda response: response(),
    "hw.link.LinkSignature": lambda link: link(flit_bytes=4),
}
