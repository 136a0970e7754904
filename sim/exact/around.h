// What the ports of an interface see of each other in a cycle (nic/top/core.py).
#pragma once
#include "tracker.h"

namespace exact {

constexpr uint32_t JOB_QUEUE_DEPTH = 4;  // nic/driver/config.py

// How far each port has come in the flits that it writes (nic/forward/positions.py).
struct Positions {
    int64_t written[MOST_PORTS] = {}, acknowledged[MOST_PORTS] = {};
};

struct Around {
    Tracker tracker, beginnings;
    Positions positions;
    bool moved = false;  // other positions than in the cycle before

    Around(int num_clients, std::vector<uint64_t>& counts, std::vector<uint64_t>& begun)
        : tracker(num_clients, true, counts), beginnings(num_clients, false, begun) {}
};

}  // namespace exact
