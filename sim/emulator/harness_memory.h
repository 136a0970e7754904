// Memory channels: requests taken in order, answered in order after a fixed or random time.
#pragma once
#include "harness_end.h"

// xorshift64*: one independent stream per channel, so that a seed fixes a run.
class Random {
public:
    // The state must not be 0, from which xorshift never gets away.
    explicit Random(uint64_t seed = 1) : state_(seed * 0x9e3779b97f4a7c15ull | 1) {
        for (int i = 0; i < 8; ++i) below(2);
    }
    uint32_t below(uint32_t bound) {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return uint32_t((state_ * 0x2545f4914f6cdd1dull >> 32) * bound >> 32);
    }

private:
    uint64_t state_;
};

struct Timing {
    uint32_t cycles = 4;         // from taken to answered
    uint32_t extra_cycles = 0;   // at most as many more, drawn per request; 0 is fixed timing
    uint32_t stall_percent = 0;  // cycles in which the channel is not ready
};

struct Memory {
    uint8_t* data = nullptr;
    uint64_t num_flits = 0;
    bool violated = false;
    uint64_t violating_address = 0;
    // A model that uses a wrong address goes on until the window ends: this is what it touches.
    uint8_t nowhere[FLIT_BYTES] = {};

    uint8_t* at(uint64_t address) {
        if (address < num_flits) return data + address * FLIT_BYTES;
        if (!violated) violating_address = address;
        violated = true;
        return nowhere;
    }
};

struct Access {
    uint64_t due;
    uint64_t address;
    bool at_due;  // touches memory when it is answered, else when it is taken
    uint8_t data[FLIT_BYTES];
};

// Fixed timing is the strictest that the interface's contract allows: a read looks at memory when
// it is taken, and a write lands only when it is acknowledged. With random timing either happens
// at either end, by the toss of a coin.
class Channel {
public:
    void configure(const Timing& timing, uint64_t seed) {
        timing_ = timing;
        random_ = Random(seed);
    }
    void stick(uint64_t cycle) { stuck_from_ = cycle; }
    void fail(uint64_t cycle) { fails_from_ = cycle; }
    void heal() { stuck_from_ = fails_from_ = NEVER; }
    bool ready(uint64_t now) {
        if (queue_.holds(MOST_PENDING) || now >= stuck_from_) return false;
        return !timing_.stall_percent || random_.below(100) >= timing_.stall_percent;
    }
    // When it next answers, or is ready no more; with stalls it draws in every cycle.
    uint64_t next_event(uint64_t now) const {
        if (timing_.stall_percent) return now;
        return std::min(queue_.next_due, stuck_from_ > now ? stuck_from_ : NEVER);
    }
    // One answer per cycle, in order: a request may be due before the one ahead of it.
    bool due(uint64_t now) const { return queue_.next_due <= now; }
    // Whether the answer of this cycle is an error; only one is.
    bool fails(uint64_t now) {
        if (now < fails_from_) return false;
        fails_from_ = NEVER;
        return true;
    }
    bool may_fail() const { return fails_from_ != NEVER; }

    void take_read(uint64_t now, uint64_t address, Memory& memory) {
        Access& access = push(now, address);
        access.at_due = timing_.extra_cycles && random_.below(2);
        if (!access.at_due) std::memcpy(access.data, memory.at(address), FLIT_BYTES);
    }
    void answer_read(void* data, Memory& memory) {
        const Access& access = queue_.pop();
        std::memcpy(data, access.at_due ? memory.at(access.address) : access.data, FLIT_BYTES);
    }
    void take_write(uint64_t now, uint64_t address, const void* data, Memory& memory) {
        Access& access = push(now, address);
        access.at_due = !timing_.extra_cycles || random_.below(2);
        if (access.at_due) std::memcpy(access.data, data, FLIT_BYTES);
        else std::memcpy(memory.at(address), data, FLIT_BYTES);
    }
    void answer_write(Memory& memory) {
        const Access& access = queue_.pop();
        if (access.at_due) std::memcpy(memory.at(access.address), access.data, FLIT_BYTES);
    }

private:
    // No interface has more in flight: `Config.most_reads` is at most twice 1024.
    static constexpr uint64_t MOST_PENDING = 2048;
    Timing timing_;
    Random random_;
    Delay<Access> queue_;
    uint64_t stuck_from_ = NEVER, fails_from_ = NEVER;

    Access& push(uint64_t now, uint64_t address) {
        uint64_t due = now + timing_.cycles;
        if (timing_.extra_cycles) due += random_.below(timing_.extra_cycles + 1);
        Access& access = queue_.push(due);
        access.address = address;
        return access;
    }
};
