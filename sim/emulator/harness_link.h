// Delay lines: what one end of a link puts in comes out at the other some cycles later.
#pragma once
#include "harness_watch.h"

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

    bool holds(uint64_t entries) const { return tail_ - head_ >= entries; }
    Entry& push(uint64_t due) {
        if (tail_ - head_ == ring_.size()) grow();
        Entry& entry = ring_[tail_++ & (ring_.size() - 1)];
        entry.due = due;
        if (next_due == NEVER) next_due = due;
        return entry;
    }
    // The entry stays in the ring, and so is valid until the next push.
    const Entry& pop() {
        const Entry& entry = ring_[head_++ & (ring_.size() - 1)];
        next_due = head_ == tail_ ? NEVER : ring_[head_ & (ring_.size() - 1)].due;
        return entry;
    }

private:
    std::vector<Entry> ring_ = std::vector<Entry>(16);
    uint64_t head_ = 0, tail_ = 0;

    void grow() {
        std::vector<Entry> larger(2 * ring_.size());
        for (uint64_t i = head_; i < tail_; ++i)
            larger[i & (larger.size() - 1)] = ring_[i & (ring_.size() - 1)];
        ring_.swap(larger);
    }
};

// A delay line between two ranks that run on their own for a window of cycles no longer than the
// delay, perhaps in two threads: what goes in during one window is taken over in the next. Windows
// have parity 0 and 1 in turn. No lock is needed, since threads meet between windows.
template <typename Entry> class Line : public Delay<Entry> {
public:
    Entry& put(uint64_t due, int parity) {
        outbox_[parity].emplace_back();
        outbox_[parity].back().due = due;
        return outbox_[parity].back();
    }
    void take_over(int parity) {
        for (const Entry& entry : outbox_[parity]) this->push(entry.due) = entry;
        outbox_[parity].clear();
    }
    // The same, without those that `sort` rejects.
    template <typename Sort> void sort_over(int parity, Sort sort) {
        for (const Entry& entry : outbox_[parity])
            if (sort(entry)) this->push(entry.due) = entry;
        outbox_[parity].clear();
    }

private:
    std::vector<Entry> outbox_[2];
};

struct Flit {
    uint64_t due;
    uint32_t check;
    uint8_t kind, vc, sequence, epoch, fate;
    uint8_t payload[FLIT_BYTES];
};

// What becomes of a flit on purpose.
enum Fate : uint8_t { SOUND = 0, LOST = 1, LATE = 2 };

struct Credit {
    uint64_t due;
    uint8_t channels;  // a bit per virtual channel
};

// From DOWN on a flit is no part of a message but a control flit between the ends of a link.
enum Kind : uint8_t { HEAD = 0, BODY = 1, TAIL = 2, SINGLE = 3, DOWN = 4, FAULT = 7 };

// Its near end writes what goes in, `free_at` and `message`, its far end what is taken out: within
// a window no field is written by both, which may run in two threads.
struct Link {
    uint64_t latency;          // cycles from near end to far end
    uint64_t credit_latency;   // cycles back: never later than a flit that goes there
    uint64_t interval;         // cycles that one flit occupies the link, in 1/65536
    uint64_t free_at = 0;      // when the link takes the next flit, in 1/65536 cycles
    uint64_t message = NEVER;  // index in `sent` of the message in progress
    Line<Flit> flits;
    Line<Credit> credits;
    bool struck = false;          // some flit was lost or delayed, at the far end
    std::vector<Flit> late;
    Watch watch;

    void take_over_flits(int parity) {
        if (!struck) return flits.take_over(parity);
        flits.sort_over(parity, [this](const Flit& flit) {
            if (flit.fate == LATE) late.push_back(flit);
            return flit.fate == SOUND;
        });
    }
    // A flit whose time has come, in a cycle in which no other comes.
    const Flit* overdue(uint64_t now) {
        for (size_t k = 0; k < late.size(); ++k)
            if (late[k].due <= now) {
                taken_ = late[k];
                late.erase(late.begin() + k);
                return &taken_;
            }
        return nullptr;
    }

    // Cycle in which a flit that is offered in cycle `now` comes out at the far end.
    uint64_t due(uint64_t now) {
        // Fractions of a cycle are carried over: at 2.5 cycles per flit two flits take five.
        const uint64_t enters = std::max(now << 16, free_at);
        free_at = enters + interval;
        return ((enters + 0xffff) >> 16) + latency;
    }

    // Cycle from which on it is free, and all that it has taken so far has come out.
    uint64_t idle_from() const {
        // The last flit entered an interval before the link is free; before the first, none has.
        const uint64_t entered = free_at - std::min(free_at, interval);
        return (std::max(free_at, entered + (latency << 16)) + 0xffff) >> 16;
    }

private:
    Flit taken_;
};
