// Elastic elements of streams: how much each holds, and when it comes out (hw/stream.py).
//
// Of a payload only what decides something is kept; where nothing does, `Payload` is `Nothing`.
#pragma once
#include <cstdint>
#include <vector>

namespace exact {

struct Nothing {};

// Entries in order in a ring of a power of two.
template <typename Payload> class Ring {
public:
    explicit Ring(uint32_t room) {
        while (entries_.size() < room) entries_.resize(2 * entries_.size());
    }
    void push(const Payload& payload) { entries_[tail_++ & (entries_.size() - 1)] = payload; }
    void pop() { ++head_; }
    const Payload& front() const { return entries_[head_ & (entries_.size() - 1)]; }

private:
    std::vector<Payload> entries_ = std::vector<Payload>(2);
    uint32_t head_ = 0, tail_ = 0;
};

template <> class Ring<Nothing> {
public:
    explicit Ring(uint32_t) {}
    void push(Nothing) {}
    void pop() {}
    Nothing front() const { return {}; }
};

// `Fifo`: a ring of `depth - 1` places and the register that is offered.
template <typename Payload> class Fifo {
public:
    explicit Fifo(uint32_t depth) : places_(depth - 1), held_(depth + 1) {}
    bool ready() const { return count_ < places_; }
    bool valid() const { return valid_; }
    const Payload front() const { return held_.front(); }
    bool empty() const { return !count_ && !valid_; }
    // Whether nothing moves until something is put in or taken.
    bool settled() const { return valid_ || !count_; }
    // An edge: `put` only while ready, `taken` only while valid.
    void tick(bool put, const Payload& payload, bool taken) {
        if (put) held_.push(payload);
        if (taken) held_.pop();
        const bool fetch = count_ && (taken || !valid_);
        valid_ = count_ || (valid_ && !taken);
        count_ += put - fetch;
    }

private:
    uint32_t places_, count_ = 0;
    bool valid_ = false;
    Ring<Payload> held_;
};

// `QuickFifo`: a register behind a `Fifo`, filled past it while that is empty.
template <typename Payload> class QuickFifo {
public:
    explicit QuickFifo(uint32_t depth) : places_(depth - 1), held_(depth + 2) {}
    bool ready() const { return count_ < places_; }
    bool valid() const { return valid_; }
    const Payload front() const { return held_.front(); }
    bool empty() const { return !count_ && !rest_valid_ && !valid_; }
    bool settled() const { return valid_ ? rest_valid_ || !count_ : !count_ && !rest_valid_; }
    void tick(bool put, const Payload& payload, bool taken) {
        if (put) held_.push(payload);
        if (taken) held_.pop();
        const bool free = taken || !valid_;
        const bool passes = free && !count_ && !rest_valid_;
        const bool rest_taken = rest_valid_ && free;
        const bool fetch = count_ && (rest_taken || !rest_valid_);
        valid_ = free ? rest_valid_ || (passes && put) : true;
        rest_valid_ = count_ || (rest_valid_ && !rest_taken);
        count_ += (put && !passes) - fetch;
    }

private:
    uint32_t places_, count_ = 0;
    bool rest_valid_ = false, valid_ = false;
    Ring<Payload> held_;
};

// `CutFifo`: a `Register` behind a `Fifo`, filled past it while that is empty.
template <typename Payload> class CutFifo {
public:
    explicit CutFifo(uint32_t depth) : places_(depth - 1), held_(depth + 3) {}
    bool ready() const { return count_ < places_; }
    bool valid() const { return offered_; }
    const Payload front() const { return held_.front(); }
    bool empty() const { return !count_ && !rest_valid_ && !offered_; }
    bool settled() const { return room() ? !count_ && !rest_valid_ : rest_valid_ || !count_; }
    void tick(bool put, const Payload& payload, bool taken) {
        if (put) held_.push(payload);
        if (taken) held_.pop();
        const bool passes = room() && !count_ && !rest_valid_;
        const bool rest_taken = rest_valid_ && room();
        const bool fetch = count_ && (rest_taken || !rest_valid_);
        offered_ += (rest_taken || (passes && put)) - taken;
        rest_valid_ = count_ || (rest_valid_ && !rest_taken);
        count_ += (put && !passes) - fetch;
    }

private:
    // Whether the register is ready: it is until it holds two.
    bool room() const { return offered_ < 2; }

    uint32_t places_, count_ = 0, offered_ = 0;
    bool rest_valid_ = false;
    Ring<Payload> held_;
};

// A strobe that comes out a fixed number of cycles after it went in, at most one per cycle.
class Delay {
public:
    explicit Delay(uint32_t cycles) : cycles_(cycles) {
        while (due_.size() <= cycles) due_.resize(2 * due_.size());
    }
    bool empty() const { return !pending_; }
    void put(uint64_t now) {
        due_[(now + cycles_) & (due_.size() - 1)] = 1;
        ++pending_;
    }
    bool take(uint64_t now) {
        if (!pending_) return false;
        uint8_t& due = due_[now & (due_.size() - 1)];
        const bool comes = due;
        due = 0;
        pending_ -= comes;
        return comes;
    }

private:
    uint32_t cycles_, pending_ = 0;
    std::vector<uint8_t> due_ = std::vector<uint8_t>(2);
};

// Whether a block stays as it is until something comes in, so that its cycles need not be gone
// through. It does if in a cycle nothing moved, and none of its queues had anything to do.
class Rest {
public:
#ifdef MT_AWAKE  // a test compares both
    bool asleep() const { return false; }
#else
    bool asleep() const { return asleep_; }
#endif
    template <typename Settled> void note(bool moved, Settled settled) {
        asleep_ = !moved && settled_;
        settled_ = !moved && settled();
    }

private:
    bool settled_ = false, asleep_ = false;
};

}  // namespace exact
