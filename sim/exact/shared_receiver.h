// A port's receiver on shared links (nic/receive/shared_receiver.py, shared_header_check.py).
#pragma once
#include "shared_lane.h"

namespace exact {

class SharedReceiver {
public:
    LinkBuffer buffer;

    explicit SharedReceiver(Context& context)
        : buffer(int(context.sizes.num_vcs), uint32_t(context.sizes.buffer_flits)),
          context_(&context), lanes_(size_t(context.sizes.num_vcs), SharedLane(context)),
          lookup_(context), operands_(context.sizes), reducer_(context.sizes) {
        // Twice the queue: before the write request, and from there to the acknowledgement.
        while (most_ < 2 * uint64_t(context.sizes.memory_queue_flits)) most_ = 2 * most_ + 1;
    }
    bool looks_up() const { return lookup_.looks_up(); }
    bool claims() const { return lookup_.claims(); }
    int32_t transfer() const { return lookup_.transfer(); }
    bool empty() const { return lookup_.empty(); }
    // What it reports in this cycle, or nullptr.
    const Mark* arrival() const { return reducer_.arrival(); }
    bool asleep() const { return rest_.asleep(); }
    bool wakes(uint64_t now) const { return buffer.comes(now); }

    // `verdict`: the answer to its claim; `staged`: the flit of a staged contribution that is
    // offered. Returns whether that is taken.
    bool tick(uint64_t now, bool running, bool granted, const Verdict* verdict, Turn turn,
              const Item* staged) {
        const bool works = !lookup_.waits();
        uint32_t offers = 0, heads = 0;
        for (int vc = 0; vc < num_vcs(); ++vc) {
            offers |= uint32_t(lane(vc).valid(running, unwritten_)) << vc;
            heads |= uint32_t(running && lane(vc).offers_head(buffer.valid(vc))) << vc;
        }
        const int turned = std::max(turns_.grant(offers), 0);
        const int chosen = lane_stay_.choose(turned);
        const bool second = stay_.choose(!offers);
        const bool offered = second ? staged != nullptr : offers != 0;
        const bool taken = offered && reducer_.ready();
        const bool moved = taken && !second;
        Item item = {};
        if (taken) item = second ? *staged : lane(chosen).item();
        stay_.tick(second, offered, taken);
        lane_stay_.tick(chosen, offers, moved);
        if (moved) turns_.advance(turned);
        const bool works_on = tick_lanes(now, running, granted, verdict, turn,
                                         {offers, heads, moved ? 1u << chosen : 0});
        follow(running, taken ? &item : nullptr);
        const bool has_operand = operands_.valid();
        operands_.tick(now, taken && !item.replaces, reducer_.adds(has_operand));
        unwritten_ += taken;
        unwritten_ -= reducer_.tick(now, taken ? &item : nullptr, has_operand);
        const bool given = verdict || turn.behind != NONE;
        rest_.note(works || offers || taken || works_on || given, [this] {
            bool settled = buffer.settled() && operands_.settled() && reducer_.idle();
            for (const auto& lane : lanes_) settled = settled && lane.settled();
            return settled;
        });
        return taken && second;
    }

private:
    struct Bits {
        uint32_t offers, heads, moved;  // a bit per channel
    };
    Context* context_;
    std::vector<SharedLane> lanes_;
    HeaderLookup lookup_;
    MemoryOperands operands_;
    Reducer reducer_;
    RoundRobin turns_;
    Stay stay_, lane_stay_;
    Turn following_;
    uint32_t unwritten_ = 0, most_ = 1;
    Rest rest_;

    int num_vcs() const { return int(lanes_.size()); }
    SharedLane& lane(int vc) { return lanes_[size_t(vc)]; }
    // Heads to the look-up, payload to its place; returns whether something has moved.
    bool tick_lanes(uint64_t now, bool running, bool granted, const Verdict* verdict, Turn turn,
                    Bits bits) {
        const int picked = running ? lookup_.pick(bits.heads) : NO_PORT;
        const Flit head = picked == NO_PORT ? Flit{} : buffer.front(picked);
        const int opened_vc = verdict && !lookup_.empty() ? lookup_.vc() : NO_PORT;
        const Place place = verdict ? lookup_.place(*verdict) : Place();
        const bool comes = buffer.comes(now);
        uint32_t taken = 0;
        bool moved = comes;
        for (int vc = 0; vc < num_vcs(); ++vc) {
            const bool ahead = lane(vc).goes_ahead(buffer.valid(vc));
            const bool leaves = ahead || vc == picked;
            const Place* opened = vc == opened_vc ? &place : nullptr;
            const Kind kind = leaves ? buffer.front(vc).kind : BODY;
            moved |= lane(vc).tick(bits.offers >> vc & 1, bits.moved >> vc & 1, vc == picked, ahead,
                                   kind, opened, turn, following_, most_);
            moved |= leaves;
            taken |= uint32_t(leaves) << vc;
        }
        lookup_.tick(picked, head, granted, verdict != nullptr);
        buffer.tick(now, taken);
        return moved;
    }
    // Notes the contribution that the reducer took last as a whole: the next one may follow.
    void follow(bool running, const Item* item) {
        if (!running) following_ = {};
        else if (item && item->end && !item->replaces) following_ = {item->mark.transfer};
    }
};

}  // namespace exact
