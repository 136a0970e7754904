// The buffers at a link's far end, one per virtual channel (hw/link/receiver.py).
#pragma once
#include "link.h"

namespace exact {

class LinkBuffer {
public:
    Link* link = nullptr;

    LinkBuffer(int num_vcs, uint32_t flits) : queues_(size_t(num_vcs), CutFifo<Flit>(flits)) {}
    bool valid(int vc = 0) const { return queues_[size_t(vc)].valid(); }
    Flit front(int vc = 0) const { return queues_[size_t(vc)].front(); }
    bool settled() const {
        for (const auto& queue : queues_)
            if (!queue.settled()) return false;
        return true;
    }
    bool comes(uint64_t now) const { return link && link->flits.next_due == now; }
    // `taken`: a bit per channel whose flit in front leaves.
    void tick(uint64_t now, uint32_t taken) {
        const bool put = comes(now);
        const Flit flit = put ? link->flits.pop() : Flit{};
        for (uint8_t vc = 0; vc < queues_.size(); ++vc) {
            const bool leaves = taken >> vc & 1;
            if (leaves) link->return_credit(now, vc);
            queues_[vc].tick(put && flit.vc == vc, flit, leaves);
        }
    }

private:
    std::vector<CutFifo<Flit>> queues_;
};

}  // namespace exact
