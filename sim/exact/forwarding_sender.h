// A port's sender that forwards (nic/send/sender.py).
#pragma once
#include "chunk_source.h"
#include "output.h"

namespace exact {

class ForwardingSender {
public:
    Output output;

    ForwardingSender(Context& context, int client)
        : output(context), context_(&context),
          source_(context, client, bool(context.sizes.cut_through)), jobs_(JOB_QUEUE_DEPTH),
          descriptors_(4) {}

    bool has_room() const { return jobs_.ready(); }
    int32_t question() const { return source_.question(); }
    bool idle() const {
        return jobs_.empty() && source_.idle() && descriptors_.empty() && output.idle();
    }
    bool asleep() const { return rest_.asleep(); }
    bool wakes(uint64_t now, const CommonState& common) const {
        return output.comes(now) || common.moved ||
               source_.wakes(common.tracker, common.beginnings);
    }

    void tick(uint64_t now, bool running, const Job* put, const CommonState& common) {
        const Job job = jobs_.front();
        const Chunk chunk = chunk_of(job);
        const bool takes = running && jobs_.valid() && source_.ready(chunk, running);
        const Chunk* begins = source_.begins(running, common.tracker, common.beginnings);
        const bool begun = begins && descriptors_.ready();
        const int32_t transfer = begun ? begins->transfer : NONE;
        const bool credited = output.comes(now);
        const auto moves = output.tick(now, running, descriptors_.valid(), descriptors_.front(),
                                       source_.valid());
        const bool moved =
            source_.tick(now, running, common.beginnings, common.positions,
                         takes ? &chunk : nullptr, begun, moves.payload);
        jobs_.tick(put, put ? *put : job, takes);
        descriptors_.tick(begun, transfer, moves.descriptor);
        rest_.note(put || moves.sent || credited || moved, [this] {
            return source_.settled() && jobs_.settled() && descriptors_.settled();
        });
    }

private:
    Context* context_;
    ChunkSource source_;
    Fifo<Job> jobs_;
    QuickFifo<int32_t> descriptors_;
    Rest rest_;

    Chunk chunk_of(const Job& job) const {
        if (!jobs_.valid()) return {};
        const Transfer& transfer = context_->transfers[job.transfer];
        return {job.transfer, job.wave, transfer.need, transfer.size, transfer.size, false, 0};
    }
};

}  // namespace exact
