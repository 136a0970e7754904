// A port's way out: the framer, and the credits of its link (nic/send/sender.py, nic/top/port.py).
#pragma once
#include "link.h"
#include "run.h"

namespace exact {

// A head flit per message or packet, then payload, the last one the tail (nic/send/sender.py).
class Framer {
public:
    explicit Framer(const Context& context) : context_(&context) {}
    // In hand, or offered.
    int32_t message(int32_t offered) const { return begun_ || in_body_ ? held_ : offered; }
    bool idle(bool has_descriptor) const { return !in_body_ && !begun_ && !has_descriptor; }
    // Whether it offers a flit, and which.
    bool offers(bool has_descriptor, bool has_payload) const {
        return in_body_ ? has_payload : begun_ || has_descriptor;
    }
    Kind kind(int32_t offered) const {
        if (!in_body_) return !begun_ && !size(offered) ? SINGLE : HEAD;
        return is_last() ? TAIL : BODY;
    }
    bool continues() const { return begun_ && !in_body_; }
    bool takes_payload() const { return in_body_; }
    bool takes_descriptor() const { return !in_body_ && !begun_; }
    // An edge behind a cycle in which the flit that is offered was taken.
    void move(int32_t offered) {
        if (in_body_) {
            const bool last = is_last();
            begun_ = --left_ != 0;
            ++place_;
            in_body_ = !last;
        } else {
            if (!begun_) {
                held_ = offered;
                left_ = size(offered);
            }
            place_ = 0;
            in_body_ = left_ != 0;
        }
    }

private:
    const Context* context_;
    bool in_body_ = false, begun_ = false;
    int32_t held_ = NONE, left_ = 0, place_ = 0;

    int32_t size(int32_t transfer) const { return context_->transfers[transfer].size; }
    bool is_last() const {
        const auto& sizes = context_->sizes;
        return left_ == 1 || (sizes.packets && place_ == sizes.submessage_flits - 1);
    }
};

// Both together: what goes onto the link.
class Output {
public:
    Link* link = nullptr;

    explicit Output(Context& context)
        : context_(&context), framer_(context),
          credits_(int(context.sizes.num_vcs), uint32_t(context.sizes.buffer_flits)) {}
    bool idle() const { return framer_.idle(false); }
    bool comes(uint64_t now) const { return link && link->credits.next_due == now; }
    // What becomes of the descriptor and of the payload that are offered in a cycle.
    struct Moves {
        bool sent, descriptor, payload;
    };
    Moves tick(uint64_t now, bool running, bool has_descriptor, int32_t offered, bool has_payload) {
        Moves moves = {false, false, false};
        if (running && framer_.offers(has_descriptor, has_payload)) {
            const int32_t message = framer_.message(offered);
            const int vc = vc_of(message);
            if (credits_.may_send(vc)) {
                moves = {true, framer_.takes_descriptor(), framer_.takes_payload()};
                send(now, message, vc);
                if (moves.descriptor) context_->note_sent(message, now + 1);
                framer_.move(offered);
            }
        }
        if (link) credits_.take(*link, now);
        return moves;
    }

private:
    Context* context_;
    Framer framer_;
    Credits credits_;

    // The collective's number is even: its messages have the lower channel of their class.
    int vc_of(int32_t transfer) const {
        return context_->sizes.num_vcs > 1 ? 2 * context_->transfers[transfer].vc_class : 0;
    }
    void send(uint64_t now, int32_t message, int vc) {
        credits_.spend(vc);
        const Kind kind = framer_.kind(message);
        link->send(now, {message, kind, framer_.continues(), uint8_t(vc), 0});
    }
};

}  // namespace exact
