// Whatever runs on its own between links, for a window of cycles: a rank or a switch.
#pragma once
#include "link.h"

namespace exact {

class Node {
public:
    virtual ~Node() = default;
    // Goes through cycles `from` to `to - 1`.
    virtual void run(uint64_t from, uint64_t to) = 0;
    virtual void join_out(int port, Link* link) = 0;
    virtual void join_in(int port, Link* link) = 0;
    virtual bool finished() const { return true; }
    virtual int64_t done() const { return 0; }
};

}  // namespace exact
