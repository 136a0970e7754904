// What a port on shared links does with heads, and with each channel's payload (nic/receive).
#pragma once
#include "arbiter.h"
#include "link.h"
#include "reducer.h"

namespace exact {

// What becomes of a message that comes in (`Verdict` of nic/signatures.py).
enum class Verdict : uint8_t { DIRECT, STAGED, WAITS };

// Where the payload of a message goes (`place_layout`).
struct Place {
    int32_t transfer = NONE;
    bool adds = false, staged = false, waits = false;
};

// A contribution all of whose predecessors are in: the one behind `behind` in its sum.
struct Turn {
    int32_t behind = NONE;
};

// One virtual channel's messages, from link buffer to reducer (nic/receive/shared_lane.py).
class SharedLane {
public:
    explicit SharedLane(const Context& context) : context_(&context), ahead_(AHEAD_FLITS) {}
    bool offers_head(bool has_flit) const { return has_flit && !inside_ && !pending_; }
    bool goes_ahead(bool has_flit) const { return has_flit && inside_ && ahead_.ready(); }
    bool settled() const { return ahead_.settled(); }
    // Whether a flit is offered to the reducer, and which.
    bool valid(bool running, uint32_t unwritten) const {
        return running && busy_ && ahead_.valid() && (!chained_ || kept_ || unwritten < distance_);
    }
    Item item() const {
        const Mark mark = {place_.transfer, 1, true, place_.staged};
        return {!place_.adds, left_ == 1, mark};
    }
    // `opened`: the place of the message whose head was taken. Returns whether one is taken in hand.
    bool tick(bool valid, bool moved, bool head, bool ahead, Kind kind, const Place* opened,
              Turn turn, Turn following, uint32_t most) {
        const bool ends = moved && left_ == 1;
        const bool behind = pending_ && next_.waits &&
                            (follows(following.behind) ||
                             (ends && place_.adds && follows(place_.transfer)));
        const bool goes = pending_ && (!next_.waits || behind) && (!busy_ || ends);
        kept_ = valid && !moved;
        left_ -= moved;
        busy_ = busy_ && !ends;
        if (goes) take(behind, most);
        if (pending_ && follows(turn.behind)) next_.waits = false;
        if (goes) pending_ = false;
        if (opened) {
            next_ = *opened;
            pending_ = true;
        }
        if (head) inside_ = kind == HEAD;
        else if (ahead && kind == TAIL) inside_ = false;
        ahead_.tick(ahead, {}, moved);
        return goes;
    }

private:
    const Context* context_;
    QuickFifo<Nothing> ahead_;
    Place next_, place_;
    bool inside_ = false, pending_ = false, busy_ = false, chained_ = false, kept_ = false;
    int32_t left_ = 0;
    uint32_t distance_ = 0;

    // Whether the next message is the contribution behind another one.
    bool follows(int32_t other) const {
        return other != NONE && context_->transfers[next_.transfer].before == other;
    }
    void take(bool behind, uint32_t most) {
        place_ = next_;
        left_ = context_->transfers[place_.transfer].size;
        distance_ = std::min(uint32_t(left_), most);
        chained_ = behind;
        busy_ = true;
    }
};

// Takes heads and asks where their messages may go (nic/receive/header_lookup.py).
class HeaderLookup {
public:
    explicit HeaderLookup(const Context& context) : context_(&context) {}
    bool looks_up() const { return state_ == LOOK_UP; }
    bool claims() const { return state_ == CLAIM; }
    int32_t transfer() const { return transfer_; }
    bool empty() const { return single_; }
    bool waits() const { return state_ == PICK; }
    int vc() const { return vc_; }
    // The channel whose head is taken of those that offer one, or NO_PORT.
    int pick(uint32_t heads) const {
        // The collective's number is even.
        return state_ == PICK ? turns_.grant(heads & 0x55555555u) : NO_PORT;
    }
    Place place(Verdict verdict) const {
        const bool staged = verdict == Verdict::STAGED;
        const bool adds = !context_->transfers[transfer_].replaces && !staged;
        return {transfer_, adds, staged, verdict == Verdict::WAITS};
    }
    void tick(int picked, const Flit& flit, bool granted, bool answered) {
        switch (state_) {
        case PICK:
            if (picked == NO_PORT) break;
            turns_.advance(picked);
            transfer_ = flit.transfer;
            single_ = flit.kind == SINGLE;
            vc_ = picked;
            state_ = LOOK_UP;
            break;
        case LOOK_UP:
            if (granted) state_ = READ;
            break;
        case READ: state_ = CHECK; break;
        case CHECK: state_ = CLAIM; break;
        case CLAIM:
            if (answered) state_ = PICK;
            break;
        }
    }

private:
    enum State { PICK, LOOK_UP, READ, CHECK, CLAIM };
    const Context* context_;
    RoundRobin turns_;
    State state_ = PICK;
    int32_t transfer_ = NONE;
    int vc_ = 0;
    bool single_ = false;
};

}  // namespace exact
