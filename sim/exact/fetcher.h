// The fetcher: hands a table's rows to the ports, one after the other (nic/send/fetcher.py).
#pragma once
#include "arbiter.h"
#include "run.h"

#include <algorithm>

namespace exact {

// Counts lockstep steps (nic/send/rows.py).
class StepCounter {
public:
    explicit StepCounter(const Parameters& sizes)
        : lockstep_(sizes.lockstep), step_cycles_(sizes.step_cycles) {}
    // Whether a row may go.
    bool go(const Row& row) const {
        return !lockstep_ || (row.step <= step_ && (row.transfer != NONE || over()));
    }
    void tick(bool start, const Row* row) {
        const bool over = this->over();
        if (!over) --left_;
        if (start) {
            step_ = 0;
            left_ = step_cycles_;
        } else if (row && !lockstep_) {
            step_ = row->step;
        } else if (row && over && ends(*row)) {
            ++step_;
            left_ = step_cycles_;
        }
    }

private:
    bool lockstep_;
    int64_t step_cycles_, left_ = 0;
    int32_t step_ = 0;

    bool over() const { return left_ <= 1; }
    // A step ends for a row of a later one, or for its own NOP.
    bool ends(const Row& row) const {
        return row.step > step_ || (row.transfer == NONE && row.step == step_);
    }
};

// A row that goes to its port in this cycle, if that has room.
struct Offer {
    int port = NO_PORT;
    Job job = {NONE, 0};
};

// The rows of a table in the order in which they are gone through, once per run.
class Rows {
public:
    Rows(const Context& context, int64_t first, int64_t end)
        : context_(&context), rows_(context.rows + first), num_rows_(end - first),
          last_run_(context.sizes.num_waves - 1 + last_stage()) {}
    bool ended() const { return index_ == num_rows_; }
    const Row& row() const { return rows_[index_]; }
    int64_t wave() const { return run_ - row().stage; }
    // Whether it sends nothing in this run.
    bool is_nop() const {
        return row().transfer == NONE || wave() < 0 || wave() >= context_->sizes.num_waves;
    }
    Job job() const { return {row().transfer, int32_t(wave())}; }
    // Another run begins behind the last row, unless that was the last one; whether it does.
    bool repeat() {
        if (!context_->sizes.repeats || run_ == last_run_) return false;
        ++run_;
        index_ = 0;
        return true;
    }
    void advance() { ++index_; }

private:
    const Context* context_;
    const Row* rows_;
    int64_t num_rows_, last_run_, index_ = 0, run_ = 0;

    int64_t last_stage() const {
        int32_t last = 0;
        for (int64_t k = 0; k < num_rows_; ++k) last = std::max(last, rows_[k].stage);
        return last;
    }
};

class Fetcher {
public:
    Fetcher(const Context& context, int64_t first, int64_t end)
        : context_(&context), rows_(context, first, end), steps_(context.sizes) {}
    bool busy() const { return state_ != IDLE; }
    // Also for a row that sends nothing, whose answer is left.
    bool looks_up() const { return state_ == ASK_ROW; }
    Offer offer() const {
        if (state_ != PUSH || rows_.is_nop() || !steps_.go(rows_.row())) return {};
        return {rows_.row().port, rows_.job()};
    }
    void tick(bool start, bool granted, bool taken) {
        const bool in_hand = state_ == PUSH, goes = in_hand && steps_.go(rows_.row());
        steps_.tick(start, in_hand ? &rows_.row() : nullptr);
        switch (state_) {
        case IDLE:
            if (start) state_ = READ_ROW;
            break;
        case READ_ROW:
            if (!rows_.ended()) state_ = AWAIT_ROW;
            else if (!rows_.repeat()) state_ = IDLE;
            break;
        case AWAIT_ROW: state_ = ASK_ROW; break;
        case ASK_ROW:
            if (rows_.is_nop()) state_ = PUSH;
            else if (granted) state_ = AWAIT_FLOW;
            break;
        case AWAIT_FLOW: state_ = CAPTURE; break;
        case CAPTURE: state_ = context_->sizes.repeats ? MOVE : PUSH; break;
        case MOVE: state_ = PUSH; break;
        case PUSH:
            if (goes && (rows_.is_nop() || taken)) {
                rows_.advance();
                state_ = READ_ROW;
            }
            break;
        }
    }

private:
    enum State { IDLE, READ_ROW, AWAIT_ROW, ASK_ROW, AWAIT_FLOW, CAPTURE, MOVE, PUSH };
    const Context* context_;
    Rows rows_;
    State state_ = IDLE;
    StepCounter steps_;
};

}  // namespace exact
