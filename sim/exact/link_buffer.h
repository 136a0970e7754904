// The buffer at a link's far end.
#pragma once
#include "link.h"

namespace exact {

// The buffer at a link's far end (hw/link/receiver.py).
class LinkBuffer {
public:
    Link* in = nullptr;

    explicit LinkBuffer(uint32_t flits) : queue_(flits) {}
    bool valid() const { return queue_.valid(); }
    Flit front() const { return queue_.front(); }
    bool settled() const { return queue_.settled(); }
    bool comes(uint64_t now) const { return in && in->flits.next_due == now; }
    void tick(uint64_t now, bool taken) {
        const bool put = comes(now);
        if (taken) in->return_credit(now);
        queue_.tick(put, put ? in->flits.pop() : Flit{}, taken);
    }

private:
    QuickFifo<Flit> queue_;
};

}  // namespace exact
