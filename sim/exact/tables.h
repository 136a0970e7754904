// What a network executes: the numbers that sim/exact/tables.py and library.py hand over.
#pragma once
#include <cstdint>

namespace exact {

constexpr int32_t NONE = -1;
constexpr int MOST_PORTS = 8;

// Sizes and times, all of them 64 bits wide: `PARAMETERS` of library.py names them in this order.
struct Parameters {
    int64_t num_ranks, num_switches, num_links, num_transfers;
    int64_t num_ports, num_switch_ports, num_vcs;
    int64_t num_waves, repeats, part_width;
    int64_t submessage_flits, buffer_flits, memory_queue_flits, forward_flits;
    int64_t read_cycles, write_cycles, add_cycles;
    int64_t cut_through, packets, lockstep, step_cycles;
};

// A row of a rank's table; those of a rank stand together, in order.
struct Row {
    int32_t transfer, port, step, stage;  // transfer: NONE in a row that sends nothing
};

// A row of the schedule, as its source and its destination see it.
struct Transfer {
    int32_t size;                // payload flits
    int32_t need;                // the transfer that has to be in before it leaves, or NONE
    int32_t before;              // the one that is added or replaced before it, or NONE
    int32_t dst_port, replaces;  // replaces: it is a GATHER
    // Where links are shared: its place in its sum, the last contribution to that (of a GATHER
    // itself), its step, the channel class of its first link, and where its hops begin.
    int32_t order, last, step, vc_class, hops;
};

// A switch on a message's route: the port that it leaves by, and the class of that link.
struct Hop {
    int32_t port, vc_class;
};

struct LinkOf {
    int64_t src, src_port, dst, dst_port;
    int64_t latency, credit_latency, interval;  // interval: of a flit, in 1/65536 cycles
};

struct Inputs {
    const Parameters* parameters;
    const int64_t* row_offsets;  // per rank, where its rows begin
    const Row* rows;
    const Transfer* transfers;
    const LinkOf* links;
    const Hop* hops;
    const int64_t* start;     // per rank, the cycle of its host's start
    const int64_t* expected;  // per rank, the messages that come in
};

struct Outputs {
    int64_t *sent, *arrived;  // per wave and transfer
    int64_t* done;            // per rank
};

}  // namespace exact
