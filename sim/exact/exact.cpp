// A network without data: every interface and switch goes through the cycles of its Verilog.
//
// Nodes meet only across links, so each goes on its own for a window of as many cycles as the
// shortest link is long: what it touches stays in the processor's cache.
#include "private_rank.h"
#include "shared_rank.h"
#include "switch.h"

namespace exact {
namespace {

class Network {
public:
    explicit Network(const Inputs& inputs, const Outputs& outputs)
        : context_{*inputs.parameters, inputs.rows, inputs.transfers, inputs.hops, outputs, {}, {}, {}, {}, {}} {
        const auto& sizes = context_.sizes;
        const auto count = size_t(sizes.num_transfers);
        context_.counts.resize(count);
        context_.sent_waves.resize(count);
        context_.came_waves.resize(count);
        if (sizes.forward_flits) context_.begun.resize(count);
        if (sizes.num_switches) context_.sums.resize(count);
        for (int64_t rank = 0; rank < sizes.num_ranks; ++rank)
            nodes_.push_back(sizes.num_switches    ? make<SharedRank>(inputs, rank)
                             : sizes.forward_flits ? make<PrivateRank<true>>(inputs, rank)
                                                   : make<PrivateRank<false>>(inputs, rank));
        for (int64_t number = 0; number < sizes.num_switches; ++number)
            nodes_.push_back(std::make_unique<Switch>(context_));
        for (int64_t link = 0; link < sizes.num_links; ++link) join(inputs.links[link]);
    }
    // Goes on for so many cycles at least, or until all ranks are done; returns whether they are.
    bool run(uint64_t cycles) {
        bool finished = false;
        for (const uint64_t end = now_ + cycles; now_ < end && !finished; now_ += window_) {
            finished = true;
            for (auto& node : nodes_) {
                node->run(now_, now_ + window_);
                finished = finished && node->finished();
            }
        }
        for (size_t rank = 0; rank < size_t(context_.sizes.num_ranks); ++rank)
            context_.outputs.done[rank] = nodes_[rank]->done();
        return finished;
    }

private:
    static constexpr uint64_t MOST_CYCLES = 1024;
    Context context_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<std::unique_ptr<Link>> links_;
    uint64_t window_ = MOST_CYCLES, now_ = 0;

    template <typename Rank> std::unique_ptr<Node> make(const Inputs& inputs, int64_t rank) {
        const int64_t* offsets = inputs.row_offsets;
        return std::make_unique<Rank>(context_, offsets[rank], offsets[rank + 1],
                                      inputs.start[rank], inputs.expected[rank]);
    }
    void join(const LinkOf& of) {
        links_.push_back(std::make_unique<Link>(of));
        Link* link = links_.back().get();
        nodes_[size_t(of.src)]->join_out(int(of.src_port), link);
        nodes_[size_t(of.dst)]->join_in(int(of.dst_port), link);
        window_ = std::min(window_, link->window());
    }
};

}  // namespace
}  // namespace exact

#pragma GCC visibility push(default)
extern "C" {
// What the arguments point to has to live as long as the network.
void* mt_create(const exact::Inputs* inputs, const exact::Outputs* outputs) {
    return new exact::Network(*inputs, *outputs);
}
int mt_run(void* network, uint64_t cycles) {
    return static_cast<exact::Network*>(network)->run(cycles);
}
void mt_destroy(void* network) { delete static_cast<exact::Network*>(network); }
}
#pragma GCC visibility pop
