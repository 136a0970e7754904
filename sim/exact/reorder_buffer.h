// Contributions that wait in memory until it is their turn (nic/reduce/reorder_buffer.py).
#pragma once
#include "forward.h"
#include "reducer.h"

namespace exact {

class ReorderBuffer {
public:
    explicit ReorderBuffer(const Context& context)
        : context_(&context), room_(context.sizes.memory_queue_flits),
          payload_(uint32_t(context.sizes.memory_queue_flits)),
          memory_(uint32_t(context.sizes.read_cycles)) {}
    bool ready() const { return state_ == TAKE; }
    bool looks_up() const { return state_ == LOOK_UP; }
    // Whether it offers a flit to the reducer, and which.
    bool valid(bool running) const { return running && payload_.valid(); }
    Item item() const { return {false, left_ == 1, {job_, 1, true, false}}; }
    bool asleep() const { return rest_.asleep(); }

    // `free`: port 0's sender does not read in this cycle.
    void tick(uint64_t now, bool running, int32_t put, bool granted, bool free, bool moved) {
        const bool works = state_ != TAKE;
        const bool issued = running && unread_ && room_ && reads_.ready();
        const bool came = memory_.take(now);
        if (reads_.valid() && free) memory_.put(now);
        reads_.tick(issued, free);
        room_ += int64_t(moved) - int64_t(issued);
        payload_.tick(came, {}, moved);
        switch (state_) {
        case TAKE:
            job_ = put;
            if (put != NONE) state_ = LOOK_UP;
            break;
        case LOOK_UP:
            if (granted) state_ = READ;
            break;
        case READ: state_ = KEEP; break;
        case KEEP:
            left_ = context_->transfers[job_].size;
            state_ = PLACE;
            break;
        case PLACE:
            unread_ = left_;
            state_ = MOVE;
            break;
        case MOVE:
            unread_ -= issued;
            if (moved && --left_ == 0) state_ = TAKE;
            break;
        }
        rest_.note(works || put != NONE || issued || came || moved,
                   [this] { return !reads_.valid() && memory_.empty() && payload_.settled(); });
    }

private:
    enum State { TAKE, LOOK_UP, READ, KEEP, PLACE, MOVE };
    const Context* context_;
    State state_ = TAKE;
    int32_t job_ = NONE, left_ = 0, unread_ = 0;
    int64_t room_;
    Register reads_;
    QuickFifo<Nothing> payload_;
    Delay memory_;
    Rest rest_;
};

}  // namespace exact
