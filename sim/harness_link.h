// Delay lines: a link is one queue of flits with due cycles, and one of credits the other way.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

constexpr uint64_t NEVER = ~0ull;

// First in, first out, in a ring of a power of two. The due cycle of the oldest entry is kept
// apart, so that the many cycles in which nothing is due touch one word only.
template <typename Entry> class Delay {
public:
    uint64_t next_due = NEVER;

    void reserve(uint64_t entries) {
        uint64_t size = 2;
        while (size < entries) size *= 2;
        ring_.resize(size);
    }
    bool full() const { return tail_ - head_ == ring_.size(); }
    Entry& push(uint64_t due) {
        Entry& entry = ring_[tail_++ & (ring_.size() - 1)];
        entry.due = due;
        if (next_due == NEVER) next_due = due;
        return entry;
    }
    const Entry& pop() {
        const Entry& entry = ring_[head_++ & (ring_.size() - 1)];
        next_due = head_ == tail_ ? NEVER : ring_[head_ & (ring_.size() - 1)].due;
        return entry;
    }

private:
    std::vector<Entry> ring_{2};
    uint64_t head_ = 0, tail_ = 0;
};

struct Flit {
    uint64_t due;
    uint8_t kind, vc, sequence;
    uint8_t payload[FLIT_BYTES];
};

struct Credit {
    uint64_t due;
};

enum Kind : uint8_t { HEAD = 0, BODY = 1, TAIL = 2, SINGLE = 3 };

struct Link {
    uint64_t latency;        // cycles from near end to far end, the same for credits
    uint64_t interval;       // cycles that one flit occupies the link, in 1/65536
    uint64_t free_at = 0;    // when the link takes the next flit, in 1/65536 cycles
    uint64_t message = NEVER; // event of the message that is on its way
    Delay<Flit> flits;
    Delay<Credit> credits;

    // Cycle in which a flit that is offered in cycle `now` comes out at the far end.
    uint64_t due(uint64_t now) {
        const uint64_t enters = std::max(now << 16, free_at);
        free_at = enters + interval;
        return ((enters + 0xffff) >> 16) + latency;
    }
};
