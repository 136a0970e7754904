// A port's receiver on private links: link buffer, header check, reducer (nic/receive).
#pragma once
#include "tracker.h"
#include "link.h"
#include "reducer.h"

namespace exact {

// Reads heads in order and passes their flits on when they may (nic/receive/header_check.py).
class HeaderCheck {
public:
    HeaderCheck(Context& context, int client) : context_(&context), client_(client) {}
    bool looks_up() const { return state_ == LOOK_UP; }
    int32_t question() const {
        return state_ == PASS || state_ == REPORT || state_ == NEXT_HEAD ? before() : NONE;
    }
    bool gate(const Tracker& tracker) const {
        if (before() == NONE || known_ >= next_count_) return true;
        return asked_ && tracker.answers(client_) && tracker.count(client_) >= next_count_;
    }
    // Whether the flit in front goes to the reducer.
    bool passes(bool has_flit, bool gate) const { return state_ == PASS && has_flit && gate; }
    Item item() const {
        const bool last = left_ == 1;
        const bool end = last || place_ == context_->sizes.submessage_flits - 1;
        return {bool(of(transfer_).replaces), end, {transfer_, next_count_, last, false}};
    }
    bool takes_head(bool has_flit) const {
        return has_flit && (state_ == AWAIT_HEAD || state_ == NEXT_HEAD);
    }
    // Whether a message without payload is in.
    bool reports(bool gate, bool drained) const { return state_ == REPORT && gate && drained; }
    Mark empty() const { return {transfer_, next_count_, true, false}; }
    // Whether it stays as it is until a flit or an answer comes.
    bool waits() const { return state_ != LOOK_UP && state_ != READ && state_ != CHECK && state_ != MOVE; }

    void tick(const Tracker& tracker, bool running, bool granted, const Flit& flit, bool has_flit,
              bool passed, bool reported) {
        if (asked_ && tracker.answers(client_)) known_ = tracker.count(client_);
        asked_ = question() != NONE;
        switch (state_) {
        case AWAIT_HEAD:
            if (running && has_flit) take(flit);
            break;
        case LOOK_UP:
            known_ = 0;
            asked_ = false;
            place_ = 0;
            if (granted) state_ = READ;
            break;
        case READ: state_ = CHECK; break;
        case CHECK:
            left_ = of(transfer_).size;
            state_ = single_ ? REPORT : context_->sizes.repeats ? MOVE : PASS;
            break;
        case MOVE: state_ = PASS; break;
        case PASS:
            if (passed) pass();
            break;
        case NEXT_HEAD:
            if (running && has_flit) state_ = PASS;
            break;
        case REPORT:
            if (reported) state_ = AWAIT_HEAD;
            break;
        }
    }

private:
    enum State { AWAIT_HEAD, LOOK_UP, READ, CHECK, MOVE, PASS, NEXT_HEAD, REPORT };
    Context* context_;
    int client_;
    State state_ = AWAIT_HEAD;
    int32_t transfer_ = NONE, left_ = 0, place_ = 0;
    bool single_ = false, asked_ = false;
    uint64_t next_count_ = 0, known_ = 0;

    const Transfer& of(int32_t transfer) const { return context_->transfers[transfer]; }
    // The sibling that a contribution waits for; a GATHER waits for none here.
    int32_t before() const {
        if (transfer_ == NONE || of(transfer_).replaces) return NONE;
        return of(transfer_).before;
    }
    void take(const Flit& flit) {
        transfer_ = flit.transfer;
        single_ = flit.kind == SINGLE;
        // Links keep order: the k-th head of a transfer is that of its wave k.
        next_count_ = context_->count(context_->came_waves[size_t(transfer_)]++, 1);
        state_ = LOOK_UP;
    }
    void pass() {
        const bool last = left_ == 1;
        const bool end = last || place_ == context_->sizes.submessage_flits - 1;
        --left_;
        place_ = end ? 0 : place_ + 1;
        next_count_ += end;
        if (last) state_ = AWAIT_HEAD;
        else if (end && context_->sizes.packets) state_ = NEXT_HEAD;
    }
};

class Receiver {
public:
    LinkBuffer buffer;

    Receiver(Context& context, int client)
        : buffer(1, uint32_t(context.sizes.buffer_flits)), client_(client), check_(context, client),
          operands_(context.sizes), reducer_(context.sizes) {}
    bool looks_up() const { return check_.looks_up(); }
    int32_t question() const { return check_.question(); }
    // What it reports in this cycle, or nullptr.
    const Mark* arrival() const { return empty_ ? &report_ : reducer_.arrival(); }
    bool asleep() const { return rest_.asleep(); }
    bool wakes(uint64_t now, const CommonState& common) const {
        return buffer.comes(now) ||
               (common.tracker.answers(client_) && check_.gate(common.tracker));
    }

    void tick(uint64_t now, bool running, bool granted, const CommonState& common) {
        const Tracker& tracker = common.tracker;
        const Flit flit = buffer.front();
        const bool has_flit = buffer.valid(), works = !check_.waits();
        const bool gate = check_.gate(tracker);
        const bool passed = running && check_.passes(has_flit, gate) && reducer_.ready();
        const bool head = running && check_.takes_head(has_flit);
        const Item item = passed ? check_.item() : Item{};
        const bool reported = running && check_.reports(gate, reducer_.idle());
        report_ = check_.empty();
        check_.tick(tracker, running, granted, flit, has_flit, passed, reported);
        const bool has_operand = operands_.valid();
        operands_.tick(now, passed && !item.replaces, reducer_.adds(has_operand));
        reducer_.tick(now, passed ? &item : nullptr, has_operand);
        const bool comes = buffer.comes(now);
        buffer.tick(now, passed || head);
        empty_ = reported;
        rest_.note(passed || head || reported || comes || works,
                   [this] { return buffer.settled() && operands_.settled() && reducer_.idle(); });
    }

private:
    int client_;
    HeaderCheck check_;
    MemoryOperands operands_;
    Reducer reducer_;
    bool empty_ = false;
    Mark report_;
    Rest rest_;
};

}  // namespace exact
