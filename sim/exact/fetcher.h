// The fetcher: hands a table's rows to the ports, one after the other (nic/send/fetcher.py).
#pragma once
#include "arbiter.h"
#include "run.h"

#include <algorithm>

namespace exact {

// Counts lockstep steps (nic/send/steps.py).
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
    int port = NOBODY;
    Job job = {NONE, 0};
};

class Fetcher {
public:
    Fetcher(const Context& context, int64_t first, int64_t end)
        : context_(&context), rows_(context.rows + first), num_rows_(end - first),
          steps_(context.sizes) {
        // As many runs as waves, and one more for every stage of this table.
        last_run_ = context.sizes.num_waves - 1;
        int32_t last_stage = 0;
        for (int64_t k = 0; k < num_rows_; ++k) last_stage = std::max(last_stage, rows_[k].stage);
        last_run_ += last_stage;
    }
    bool busy() const { return state_ != IDLE; }
    bool looks_up() const { return state_ == ASK_ROW && !is_nop(); }
    Offer offer() const {
        Offer offer;
        if (state_ == PUSH && !is_nop() && steps_.go(row())) {
            offer.port = row().port;
            offer.job = {row().transfer, int32_t(wave())};
        }
        return offer;
    }
    void tick(bool start, bool granted, bool taken) {
        steps_tick(start);
        switch (state_) {
        case IDLE:
            index_ = run_ = 0;
            if (start) state_ = READ_ROW;
            break;
        case READ_ROW:
            if (index_ != num_rows_) {
                state_ = AWAIT_ROW;
            } else if (context_->sizes.repeats && run_ != last_run_) {
                ++run_;
                index_ = 0;
            } else {
                state_ = IDLE;
            }
            break;
        case AWAIT_ROW: state_ = ASK_ROW; break;
        case ASK_ROW:
            if (is_nop()) state_ = PUSH;
            else if (granted) state_ = AWAIT_FLOW;
            break;
        case AWAIT_FLOW: state_ = CAPTURE; break;
        case CAPTURE: state_ = context_->sizes.repeats ? MOVE : PUSH; break;
        case MOVE: state_ = PUSH; break;
        case PUSH:
            if (went_ && (is_nop() || taken)) {
                ++index_;
                state_ = READ_ROW;
            }
            break;
        }
    }

private:
    enum State { IDLE, READ_ROW, AWAIT_ROW, ASK_ROW, AWAIT_FLOW, CAPTURE, MOVE, PUSH };
    const Context* context_;
    const Row* rows_;
    int64_t num_rows_, last_run_, index_ = 0, run_ = 0;
    State state_ = IDLE;
    bool went_ = false;
    StepCounter steps_;

    const Row& row() const { return rows_[index_]; }
    int64_t wave() const { return run_ - row().stage; }
    bool is_nop() const {
        return row().transfer == NONE || wave() < 0 || wave() >= context_->sizes.num_waves;
    }
    void steps_tick(bool start) {
        const bool in_hand = state_ == PUSH;
        went_ = in_hand && steps_.go(row());
        steps_.tick(start, in_hand ? &row() : nullptr);
    }
};

}  // namespace exact
