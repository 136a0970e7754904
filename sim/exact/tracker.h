// The dependency tracker: how much of every transfer is in (nic/control/tracker.py).
//
// A question names port, op and flow; one transfer at most comes in there, so it is asked for.
#pragma once
#include "arbiter.h"
#include "run.h"

#include <cstdint>
#include <vector>

namespace exact {

struct Report {
    int32_t transfer;
    uint64_t count;
};

class Tracker {
public:
    // The bus asks all the time, as the last client. `counts` has a number per transfer.
    Tracker(int num_clients, bool bus_asks, std::vector<uint64_t>& counts)
        : bus_(bus_asks ? 1u << num_clients : 0), counts_(&counts) {}

    // From the next cycle on a client asks for a transfer, or for none.
    void ask(int client, int32_t transfer) {
        asked_[client] = transfer;
        const uint32_t bit = 1u << client;
        questions_ = transfer == NONE ? questions_ & ~bit : questions_ | bit;
    }
    // The answer of this cycle to the question that stood in the cycle before.
    bool answers(int client) const { return answered_ >> client & 1; }
    uint64_t count(int client) const {
        return overheard_now_ >> client & 1 ? newest_now_[client] : count_now_;
    }

    // Begins a cycle: what it answers, and what becomes of this cycle's questions and reports.
    void begin(const Report* reports, int num_reports) {
        publish();
        const int granted = arbiter_.grant(questions_ | bus_);
        arbiter_.advance(granted);
        // `answering` of the block: granted in the cycle before, then read.
        standing_ = answering_ & questions_ & ~overheard_;
        answering_ = granted == NO_PORT ? 0 : 1u << granted;
        count_ = found_;
        if (granted != NO_PORT && questions_ >> granted & 1) found_ = (*counts_)[asked_[granted]];
        overheard_ = 0;
        for (int k = 0; k < num_reports; ++k) overhear(reports[k]);
    }

private:
    static constexpr int MOST_CLIENTS = 17;
    RoundRobin arbiter_;
    uint32_t bus_, questions_ = 0;
    int32_t asked_[MOST_CLIENTS] = {};
    uint32_t answering_ = 0, standing_ = 0, overheard_ = 0;
    uint64_t found_ = 0, count_ = 0, newest_[MOST_CLIENTS] = {};
    uint32_t answered_ = 0, overheard_now_ = 0;
    uint64_t count_now_ = 0, newest_now_[MOST_CLIENTS] = {};
    std::vector<uint64_t>* counts_;

    void publish() {
        answered_ = standing_ | overheard_;
        overheard_now_ = overheard_;
        count_now_ = count_;
        for (uint32_t left = overheard_; left; left &= left - 1) {
            const int client = __builtin_ctz(left);
            newest_now_[client] = newest_[client];
        }
    }
    void overhear(const Report& report) {
        for (uint32_t left = questions_; left; left &= left - 1) {
            const int client = __builtin_ctz(left);
            if (asked_[client] != report.transfer) continue;
            overheard_ |= 1u << client;
            newest_[client] = report.count;
        }
        // It is read from the next cycle on.
        (*counts_)[report.transfer] = report.count;
    }
};

// How far each port has come in the flits that it writes (nic/forward/positions.py).
struct Positions {
    int64_t written[MOST_PORTS] = {}, acknowledged[MOST_PORTS] = {};
};

// What all ports of an interface see in a cycle (nic/top/core.py).
struct CommonState {
    Tracker tracker, beginnings;
    Positions positions;
    bool moved = false;  // other positions than in the cycle before

    CommonState(int num_clients, std::vector<uint64_t>& counts, std::vector<uint64_t>& begun)
        : tracker(num_clients, true, counts), beginnings(num_clients, false, begun) {}
};

}  // namespace exact
