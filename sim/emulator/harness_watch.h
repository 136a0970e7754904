// What lies in the buffers behind a shared link: the messages that went onto it, flit by flit.
#pragma once
#include "ports.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

// A message on one link.
struct Crossing {
    uint64_t head[2];    // payload of its head flit, the lowest 16 bytes
    uint32_t num_flits;  // of it that went onto the link
    uint8_t vc, ended;   // ended: its last flit is among them
    uint16_t unused;
};

// The near end counts what goes in, the far end, by the credits it returns, what is taken out of
// the buffer: what lies between waits. Both stop counting at the first FAULT flit.
class Watch {
public:
    // It is the limit of hw/link/link.py; native.py copies as many counts.
    static constexpr unsigned MOST_VCS = 8;
    std::vector<Crossing> crossings;
    uint64_t taken[MOST_VCS] = {};  // flits per virtual channel

    void note(uint8_t vc, const uint8_t* payload, bool first, bool last) {
        if (!sending_) return;
        if (first) {
            open_[vc] = crossings.size();
            crossings.push_back({{}, 0, vc, 0, 0});
            std::memcpy(crossings.back().head, payload,
                        std::min<size_t>(sizeof crossings.back().head, FLIT_BYTES));
        }
        if (open_[vc] >= crossings.size()) return;
        Crossing& crossing = crossings[open_[vc]];
        ++crossing.num_flits;
        crossing.ended = last;
    }
    void note_taken(uint8_t channels) {
        if (!taking_) return;
        for (unsigned vc = 0; vc < MOST_VCS; ++vc) taken[vc] += channels >> vc & 1;
    }
    // The far end may be about to fault, and drops all from then on: what was taken before.
    void mark() { std::copy(taken, taken + MOST_VCS, marked_); }
    void stop_sending() { sending_ = false; }
    void stop_taking(bool at_mark) {
        if (taking_ && at_mark) std::copy(marked_, marked_ + MOST_VCS, taken);
        taking_ = false;
    }

private:
    size_t open_[MOST_VCS] = {};
    uint64_t marked_[MOST_VCS] = {};
    bool sending_ = true, taking_ = true;
};
