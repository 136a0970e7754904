// The reduction datapath: read, add, write, count what is acknowledged (nic/reduce/reducer.py).
#pragma once
#include "run.h"
#include "stream.h"

namespace exact {

// What a sub-message's end reports (`mark_layout` of nic/layouts.py).
struct Mark {
    int32_t transfer = NONE;
    uint64_t count = 0;
    bool last = false, staged = false;
};

// A payload flit that goes to memory.
struct Item {
    bool replaces, end;
    Mark mark;
};

// Reports a sub-message when the last of its writes is acknowledged.
class Acknowledger {
public:
    explicit Acknowledger(uint32_t depth) : depth_(depth), ends_(depth) {}
    bool room() const { return outstanding_ < depth_; }
    bool idle() const { return !outstanding_; }
    // An edge; returns whether a sub-message's mark is taken.
    bool tick(bool taken, bool end, bool ack, bool has_mark) {
        const bool retires = ends_.valid() && (acked_ || ack) && (!ends_.front() || has_mark);
        const bool reports = retires && ends_.front();
        outstanding_ += uint32_t(taken) - uint32_t(retires);
        acked_ += uint32_t(ack) - uint32_t(retires);
        ends_.tick(taken, end, retires);
        return reports;
    }

private:
    uint32_t depth_, outstanding_ = 0, acked_ = 0;
    Fifo<uint8_t> ends_;
};

// Adds what memory holds: reads are issued with the flits that they are for.
class MemoryOperands {
public:
    explicit MemoryOperands(const Parameters& sizes)
        : responses_(uint32_t(sizes.memory_queue_flits)), reads_(uint32_t(sizes.read_cycles) + 1) {}
    bool valid() const { return responses_.valid(); }
    bool settled() const { return reads_.empty() && responses_.settled(); }
    void tick(uint64_t now, bool asked, bool taken) {
        const bool came = reads_.take(now);
        if (asked) reads_.put(now);
        responses_.tick(came, {}, taken);
    }

private:
    QuickFifo<Nothing> responses_;
    Delay reads_;  // a register, then memory's latency
};

// Adds payload flits to what it gets for them, or writes them over it, in order.
class Reducer {
public:
    explicit Reducer(const Parameters& sizes)
        : depth_(uint32_t(sizes.memory_queue_flits)), stages_(uint32_t(sizes.add_cycles)),
          operands_(depth_), writes_(depth_), marks_(depth_), acknowledger_(depth_),
          acks_(uint32_t(sizes.write_cycles)) {}

    bool ready() const { return inflight_ < depth_ && marks_.ready() && operands_.ready(); }
    bool idle() const { return !inflight_ && acknowledger_.idle() && !arrival_; }
    // The report of this cycle, a register; nullptr where there is none.
    const Mark* arrival() const { return arrival_ ? &report_ : nullptr; }
    // Whether it adds in this cycle, if there is something to add to.
    bool adds(bool has_operand) const {
        return operands_.valid() && !(operands_.front() & REPLACES) && has_operand;
    }
    // Whether a flit goes to the queue of writes, in this cycle or, of what is added, in the next.
    bool coming() const { return adding_ >> (stages_ - 2) & 1 || passes(); }
    // Whether a flit is written in this cycle if it may be, and whether it is its message's last.
    bool writes() const { return writes_.valid() && acknowledger_.room(); }
    bool writes_last() const { return writes_.front() & IS_LAST; }

    // Returns whether memory has acknowledged a write.
    bool tick(uint64_t now, const Item* item, bool has_operand, bool may_write = true) {
        const uint8_t operand = operands_.valid() ? operands_.front() : uint8_t(0);
        const bool passing = passes();
        const bool pair = operands_.valid() && (operand & REPLACES || has_operand);
        const bool written = writes() && may_write;
        const bool write_ends = writes_.front() & ENDS;
        const bool ack = acks_.take(now);
        if (written) acks_.put(now);
        report_ = marks_.front();
        arrival_ = acknowledger_.tick(written, write_ends, ack, marks_.valid());
        const uint32_t last_stage = 1u << (stages_ - 1);
        const uint8_t sum = uint8_t(bool(ends_ & last_stage) * ENDS |
                                    bool(lasts_ & last_stage) * IS_LAST);
        writes_.tick(adding_ & last_stage || passing, passing ? operand : sum, written);
        adding_ = shifted(adding_, pair && !passing);
        ends_ = shifted(ends_, operand & ENDS);
        lasts_ = shifted(lasts_, operand & IS_LAST);
        operands_.tick(item, item ? flags(*item) : uint8_t(0), pair);
        marks_.tick(item && item->end, item ? item->mark : Mark(), arrival_);
        inflight_ += uint32_t(item != nullptr) - uint32_t(written);
        return ack;
    }

private:
    enum : uint8_t { ENDS = 1, REPLACES = 2, IS_LAST = 4 };
    uint32_t depth_, stages_, inflight_ = 0;
    uint32_t adding_ = 0, ends_ = 0, lasts_ = 0;  // a bit per stage of the adder
    QuickFifo<uint8_t> operands_;
    QuickFifo<uint8_t> writes_;
    Fifo<Mark> marks_;
    Acknowledger acknowledger_;
    Delay acks_;
    bool arrival_ = false;
    Mark report_;

    // A flit to replace passes by the adder while that is empty.
    bool passes() const {
        return operands_.valid() && operands_.front() & REPLACES && !adding_;
    }
    uint32_t shifted(uint32_t stages, bool bit) const {
        return (stages << 1 | uint32_t(bit)) & ((1u << stages_) - 1);
    }
    static uint8_t flags(const Item& item) {
        return uint8_t(item.end * ENDS | item.replaces * REPLACES |
                       (item.end && item.mark.last) * IS_LAST);
    }
};

}  // namespace exact
