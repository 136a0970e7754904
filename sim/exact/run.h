// What every block has to know of the collective that runs (RunSignature of nic/signatures.py).
#pragma once
#include "structs.h"  // written by structs.py: what C++ and Python both know

#include <vector>

namespace exact {

// What the network executes.
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

// What is known of a sum on shared links: a bit per contribution, and which one is next.
struct Sum {
    uint64_t locked = 0, staged = 0;
    int32_t next = 0;
};

// What does not change while it runs, and where it is noted when messages go and come.
struct Context {
    Parameters sizes;
    const Row* rows;
    const Transfer* transfers;
    const Hop* hops;
    Outputs outputs;
    std::vector<uint64_t> counts;  // per transfer, what has come in, as the trackers know it
    std::vector<uint64_t> begun;   // and where it began to come in (`Beginning`)
    std::vector<Sum> sums;         // by the last contribution
    std::vector<int32_t> sent_waves, came_waves;  // per transfer, heads that have left and come

    // The head of a transfer's next wave is on its link in cycle `now`.
    void note_sent(int32_t transfer, uint64_t now) {
        outputs.sent[sent_waves[transfer]++ * sizes.num_transfers + transfer] = int64_t(now);
    }
    // All of a transfer's message is in; returns whether it is that of its last wave.
    bool note_arrived(int32_t transfer, uint64_t count, uint64_t now) {
        const int64_t wave = wave_of(count);
        outputs.arrived[wave * sizes.num_transfers + transfer] = int64_t(now);
        return wave == sizes.num_waves - 1;
    }
    // A count of sub-messages in a wave, as `Config.count_width` of nic/driver/config.py has it.
    uint64_t count(int64_t wave, uint64_t parts) const {
        return sizes.repeats ? uint64_t(wave) << sizes.part_width | parts : parts;
    }
    int64_t wave_of(uint64_t count) const {
        return sizes.repeats ? int64_t(count >> sizes.part_width) : 0;
    }
    int32_t parts(int32_t flits) const {
        // A message without payload counts as one sub-message.
        return flits ? int32_t((flits + sizes.submessage_flits - 1) / sizes.submessage_flits) : 1;
    }
};

// A checked row for a port's sender.
struct Job {
    int32_t transfer;
    int32_t wave;
};

}  // namespace exact
