// The control: start, done and the cycles between (nic/control/collective.py).
#pragma once
#include "structs.h"

#include <cstdint>

namespace exact {

class Control {
public:
    // `start` is the cycle in which the host begins to write the command.
    Control(int64_t start, int64_t expected)
        : launch_(uint64_t(start) + LAUNCH_CYCLES), expected_(expected) {}
    bool launches(uint64_t now) const { return now == launch_; }
    bool running() const { return running_; }
    bool finished() const { return finished_; }
    // When its host sees the interrupt.
    int64_t done() const { return done_; }
    void tick(uint64_t now, int num_arrived, bool fetching, bool sending) {
        if (running_) {
            if (!missing_ && !fetching && !sending) {
                running_ = false;
                finished_ = true;
                done_ = int64_t(now + DONE_CYCLES);
            }
            missing_ -= num_arrived;
        } else if (launches(now)) {
            running_ = true;
            missing_ = expected_;
        }
    }

private:
    uint64_t launch_;
    int64_t expected_, missing_ = 0, done_ = 0;
    bool running_ = false, finished_ = false;
};

}  // namespace exact
