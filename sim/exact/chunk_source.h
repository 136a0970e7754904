// The flits of chunks in order, in memory or being written (nic/forward/chunk_source.py).
#pragma once
#include "forward.h"

namespace exact {

class ChunkSource {
public:
    ChunkSource(const Context& context, int client, bool cut_through)
        : order_(QUEUED_JOBS), searched_(QUEUED_JOBS), sequence_(2 * QUEUED_JOBS),
          finder_(context, client, cut_through), reader_(context), local_(context.sizes) {}

    int32_t question() const { return finder_.question(); }
    bool idle() const {
        return order_.empty() && searched_.empty() && sequence_.empty() && !left_.some();
    }
    bool settled() const {
        return order_.settled() && searched_.settled() && sequence_.settled() &&
               reader_.settled() && local_.settled();
    }
    bool wakes(const Tracker& counts, const Tracker& beginnings) const {
        return finder_.wakes(counts, beginnings);
    }
    // Whether a job is taken that is offered.
    bool ready(const Chunk& job, bool running) const {
        if (!order_.ready() || !sequence_.ready()) return false;
        return job.need == NONE ? local_.ready(running) : searched_.ready();
    }
    // Whether it offers a flit, a register.
    bool valid() const { return left_.some() && (is_local_ ? local_.valid() : reader_.valid()); }

    // What it offers as begun in this cycle, or nullptr; valid until `tick`.
    const Chunk* begins(bool running, const Tracker& counts, const Tracker& beginnings) {
        answer_ = finder_.answer(counts, beginnings);
        if (!order_.valid()) return nullptr;
        begun_ = order_.front();
        if (begun_.need == NONE) return &begun_;
        if (!running || !answer_.offers() || !reader_.ready()) return nullptr;
        begun_.tracked = answer_.begun;
        begun_.position = answer_.position;
        return &begun_;
    }
    // Behind `begins`; `put` only if it is ready, `begun` if what it offers is taken. Returns
    // whether something has moved.
    bool tick(uint64_t now, bool running, const Tracker& beginnings, const Positions& positions,
              const Chunk* put, bool begun, bool taken) {
        const bool is_found = begun && begun_.need != NONE;
        const Chunk found = finder_.found(answer_);
        const bool takes = running && finder_.takes() && searched_.valid();
        const Chunk job = searched_.front();
        const Part part = sequence_.front();
        const bool load = sequence_.valid() && (!left_.some() || (taken && left_.last()));
        const bool free = !reader_.reading();
        const bool put_local = put && put->need == NONE;
        const bool reads =
            reader_.tick(now, running, positions, is_found ? &found : nullptr, taken && !is_local_);
        local_.tick(now, running, put_local ? &put->read : nullptr, free, taken && is_local_);
        finder_.tick(beginnings, answer_, takes ? &job : nullptr, is_found);
        order_.tick(put, put ? *put : job, begun);
        searched_.tick(put && !put_local, put ? *put : job, takes);
        sequence_.tick(put, put ? Part{put_local, put->read} : part, load);
        left_.tick(load, part.size, taken);
        if (load) is_local_ = part.is_local;
        return put || begun || taken || takes || load || reads;
    }

private:
    struct Part {
        bool is_local;
        int32_t size;
    };
    QuickFifo<Chunk> order_, searched_;
    QuickFifo<Part> sequence_;
    ChunkFinder finder_;
    ChunkReader reader_;
    LocalReader local_;
    Countdown left_;  // of the chunk whose flits are offered
    bool is_local_ = false;
    ChunkFinder::Answer answer_ = {};
    Chunk begun_ = {};
};

}  // namespace exact
