// A fetcher that hands out a row per cycle (nic/send/pipelined_fetcher.py).
#pragma once
#include "fetcher.h"
#include "stream.h"

namespace exact {

class PipelinedFetcher {
public:
    PipelinedFetcher(const Context& context, int64_t first, int64_t end)
        : asked_(context, first, end), out_(asked_), pipeline_(PIPELINE_CYCLES), queue_(FETCHED_ROWS),
          steps_(context.sizes) {}
    bool busy() const { return runs_; }
    bool looks_up() const { return false; }  // it has a flow memory of its own
    Offer offer() const {
        if (!goes() || out_.is_nop()) return {};
        return {out_.row().port, out_.job()};
    }
    void tick(bool start, bool, bool taken) {
        const bool in_hand = runs_ && queue_.valid();
        const bool gone = goes() && (out_.is_nop() || taken);
        steps_.tick(start, in_hand ? &out_.row() : nullptr);
        const bool asks = runs_ && room_ && !asked_.ended();
        const bool over = runs_ && asked_.ended() && room_ == FETCHED_ROWS;
        const bool found = pipeline_.take(cycle_);
        if (asks) {
            pipeline_.put(cycle_);
            next(asked_);
        }
        if (gone) next(out_);
        queue_.tick(found, {}, gone);
        room_ += uint32_t(gone) - uint32_t(asks);
        ++cycle_;
        if (start) runs_ = true;
        else if (over) runs_ = false;
    }

private:
    // From a row's address to the queue: table and flow memory, and the job's register.
    static constexpr uint32_t PIPELINE_CYCLES = 5;
    Rows asked_, out_;  // the next one to ask for, and the one that is handed out
    Delay pipeline_;
    QuickFifo<Nothing> queue_;
    StepCounter steps_;
    uint32_t room_ = FETCHED_ROWS;
    uint64_t cycle_ = 0;
    bool runs_ = false;

    bool goes() const { return runs_ && queue_.valid() && steps_.go(out_.row()); }
    static void next(Rows& rows) {
        rows.advance();
        if (rows.ended()) rows.repeat();
    }
};

}  // namespace exact
