// One rank: its interface, memory and host, and a cycle of them.
#pragma once
#include "harness_memory.h"
#include "harness_poke.h"
#include "harness_script.h"

#include <memory>
#include <type_traits>

template <typename T> using Pin = std::remove_reference_t<T>*;

// Where one port's signals lie inside a model.
struct Port {
    uint8_t *tx_valid, *tx_kind, *tx_vc, *tx_sequence, *tx_epoch, *tx_credit;
    uint8_t *rx_valid, *rx_kind, *rx_vc, *rx_sequence, *rx_epoch, *rx_credit;
    uint32_t *tx_check, *rx_check;
    void *tx_payload, *rx_payload;
    struct Requests {
        uint8_t *valid, *ready, *answer;
        Pin<decltype(Vnic::memory_0_send_address)> address;
        void* data;
    } send, fetch, write;
    uint8_t *monitor_valid, *monitor_op;
    Pin<decltype(Vnic::monitor_0_flow)> monitor_flow;
    Link *out = nullptr, *in = nullptr;
    Channel send_channel, fetch_channel, write_channel;
};

#define BIND(p)                                                                                  \
    ports[p].tx_valid = &nic.link_##p##_tx_valid;                                                \
    ports[p].tx_kind = &nic.link_##p##_tx_kind;                                                  \
    ports[p].tx_vc = &nic.link_##p##_tx_vc;                                                      \
    ports[p].tx_sequence = &nic.link_##p##_tx_sequence;                                          \
    ports[p].tx_epoch = &nic.link_##p##_tx_epoch;                                                \
    ports[p].tx_check = &nic.link_##p##_tx_check;                                                \
    ports[p].tx_credit = &nic.link_##p##_tx_credit;                                              \
    ports[p].tx_payload = &nic.link_##p##_tx_payload;                                            \
    ports[p].rx_valid = &nic.link_##p##_rx_valid;                                                \
    ports[p].rx_kind = &nic.link_##p##_rx_kind;                                                  \
    ports[p].rx_vc = &nic.link_##p##_rx_vc;                                                      \
    ports[p].rx_sequence = &nic.link_##p##_rx_sequence;                                          \
    ports[p].rx_epoch = &nic.link_##p##_rx_epoch;                                                \
    ports[p].rx_check = &nic.link_##p##_rx_check;                                                \
    ports[p].rx_credit = &nic.link_##p##_rx_credit;                                              \
    ports[p].rx_payload = &nic.link_##p##_rx_payload;                                            \
    ports[p].send = {&nic.memory_##p##_send_valid, &nic.memory_##p##_send_ready,                 \
                     &nic.memory_##p##_send_data_valid, &nic.memory_##p##_send_address,          \
                     &nic.memory_##p##_send_data};                                               \
    ports[p].fetch = {&nic.memory_##p##_fetch_valid, &nic.memory_##p##_fetch_ready,              \
                      &nic.memory_##p##_fetch_data_valid, &nic.memory_##p##_fetch_address,       \
                      &nic.memory_##p##_fetch_data};                                             \
    ports[p].write = {&nic.memory_##p##_write_valid, &nic.memory_##p##_write_ready,              \
                      &nic.memory_##p##_write_ack, &nic.memory_##p##_write_address,              \
                      &nic.memory_##p##_write_data};                                             \
    ports[p].monitor_valid = &nic.monitor_##p##_valid;                                           \
    ports[p].monitor_op = &nic.monitor_##p##_op;                                                 \
    ports[p].monitor_flow = &nic.monitor_##p##_flow;

inline void bind(Vnic& nic, Port* ports) { FOR_EACH_PORT(BIND) }

// A message that left, or one that came in.
struct Event {
    uint64_t cycle;
    uint32_t num_payload;  // payload flits that went onto the link after a head
    uint16_t flow, sequence;
    uint16_t rank;
    uint8_t port, op;
    uint32_t unused;
};

enum Status { RUNNING = 0, FINISHED = 1, BAD_ADDRESS = 2, NO_LINK = 3 };

class Rank {
public:
    std::unique_ptr<Vnic> nic;
    Port ports[NUM_PORTS];
    Memory memory;
    Script script;
    std::vector<Event> sent, arrived;
    uint64_t irq_cycle = 0;  // when the interrupt last went up
    Status status = RUNNING;
    uint64_t culprit_port = 0;

    void make(uint16_t number, VerilatedContext* context) {
        number_ = number;
        const std::string name = "rank_" + std::to_string(number);
        nic = std::make_unique<Vnic>(context, name.c_str());
        bind(*nic, ports);
    }
    // Before a window of cycles: take over what came onto the links in the one before.
    void open_window(int parity) {
        parity_ = parity;
        for (Port& port : ports) {
            if (port.in) port.in->take_over_flits(!parity);
            if (port.out) port.out->credits.take_over(!parity);
        }
    }
    // Samples the outputs of cycle `now` and sets its inputs; outputs come from registers.
    void tick(uint64_t now) {
        if (POKES && now >= next_poke_) poke_memories(now);
        for (uint8_t p = 0; p < NUM_PORTS; ++p) {
            Port& port = ports[p];
            send_flit(now, p);
            receive_flit(now, port);
            serve_memory(now, port);
            if (*port.monitor_valid)
                arrived.push_back(
                    {now, 0, uint16_t(*port.monitor_flow), 0, number_, p, *port.monitor_op, 0});
        }
        if (memory.violated && status == RUNNING) status = BAD_ADDRESS;
        if (nic->irq && !irq_) irq_cycle = now;
        irq_ = nic->irq;
        script.tick(now, *nic);
    }
    // Takes a fault that is to strike from its cycle on; false if the model cannot suffer it.
    bool expect(const Fault& fault) {
        Port& port = ports[fault.port % NUM_PORTS];
        if (fault.kind == POKE) {
            pokes_.push_back(fault);
            next_poke_ = std::min(next_poke_, fault.cycle);
            return POKES;
        }
        if (fault.kind == SILENCE) {
            silent_from_ = std::min(silent_from_, fault.cycle);
        } else if (fault.kind == STICK) {
            Channel* channels[] = {&port.send_channel, &port.fetch_channel, &port.write_channel};
            channels[fault.value % 3]->stick(fault.cycle);
        } else if (port.out) {
            faults_.push_back(fault);
            port.out->next_fault = std::min(port.out->next_fault, fault.cycle);
            port.out->struck = port.out->struck || fault.kind == DROP || fault.kind == DELAY;
        }
        return true;
    }
    size_t num_faults_pending() const { return faults_.size() + pokes_.size(); }
    // Nothing more goes wrong on purpose; what has gone wrong stays so.
    void heal() {
        faults_.clear();
        pokes_.clear();
        next_poke_ = silent_from_ = NEVER;
        for (Port& port : ports) {
            if (port.out) port.out->next_fault = NEVER;
            for (Channel* channel : {&port.send_channel, &port.fetch_channel, &port.write_channel})
                channel->stick(NEVER);
        }
    }
    void set_clock(uint8_t level) {
        nic->clk = level;
        nic->eval();
    }

private:
    uint16_t number_ = 0;
    uint8_t irq_ = 0;
    int parity_ = 0;
    uint64_t silent_from_ = NEVER;
    std::vector<Fault> faults_;  // of flits that have not been struck yet
    std::vector<Fault> pokes_;   // that are to come
    uint64_t next_poke_ = NEVER;

    void poke_memories(uint64_t now) {
        next_poke_ = NEVER;
        std::vector<Fault> later;
        for (const Fault& fault : pokes_) {
            if (fault.cycle > now) {
                later.push_back(fault);
                next_poke_ = std::min(next_poke_, fault.cycle);
            } else {
                poke(*nic, fault);
            }
        }
        pokes_.swap(later);
    }

    // The first fault of the port that is due strikes; the others wait for later flits.
    void strike_flit(uint64_t now, uint8_t p, Flit& flit) {
        Link& link = *ports[p].out;
        auto due = faults_.end();
        link.next_fault = NEVER;
        for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
            if (fault->port != p) continue;
            if (due == faults_.end() && fault->cycle <= now) due = fault;
            else link.next_fault = std::min(link.next_fault, fault->cycle);
        }
        if (due == faults_.end()) return;
        strike(link, flit, *due);
        const Flit copy = flit;
        if (due->kind == DUPLICATE) {
            const uint64_t again = link.due(now);
            Flit& second = link.flits.put(again, parity_);
            second = copy;
            second.due = again;
        }
        faults_.erase(due);
    }
    void send_flit(uint64_t now, uint8_t p) {
        Port& port = ports[p];
        if (!port.out) {
            if (*port.tx_valid && *port.tx_kind < DOWN && status == RUNNING) {
                status = NO_LINK;
                culprit_port = p;
            }
            return;
        }
        Link& link = *port.out;
        if (*port.tx_valid && now < silent_from_) {
            Flit& flit = link.flits.put(link.due(now), parity_);
            flit.fate = SOUND;
            flit.kind = *port.tx_kind;
            flit.vc = *port.tx_vc;
            flit.sequence = *port.tx_sequence;
            flit.epoch = *port.tx_epoch;
            flit.check = *port.tx_check;
            std::memcpy(flit.payload, port.tx_payload, FLIT_BYTES);
            if (flit.kind == BODY || flit.kind == TAIL) {
                if (link.message != NEVER) ++sent[link.message].num_payload;
            } else if (flit.kind < DOWN && !continues(flit.payload)) {
                link.message = sent.size();
                sent.push_back(head_event(now, p, flit.payload));
            }
            if (now >= link.next_fault) strike_flit(now, p, flit);
        }
        *port.tx_credit = link.credits.next_due == now;
        if (*port.tx_credit) link.credits.pop();
    }
    void receive_flit(uint64_t now, Port& port) {
        if (!port.in) return;
        const Flit* due = nullptr;
        if (port.in->flits.next_due == now) due = &port.in->flits.pop();
        else if (!port.in->late.empty()) due = port.in->overdue(now);
        *port.rx_valid = due != nullptr;
        if (due) {
            const Flit& flit = *due;
            *port.rx_kind = flit.kind;
            *port.rx_vc = flit.vc;
            *port.rx_sequence = flit.sequence;
            *port.rx_epoch = flit.epoch;
            *port.rx_check = flit.check;
            std::memcpy(port.rx_payload, flit.payload, FLIT_BYTES);
        }
        if (*port.rx_credit && now < silent_from_) port.in->credits.put(now + port.in->credit_latency, parity_);
    }
    void serve_memory(uint64_t now, Port& port) {
        serve_read(now, port.send, port.send_channel);
        serve_read(now, port.fetch, port.fetch_channel);
        Port::Requests& write = port.write;
        Channel& channel = port.write_channel;
        *write.answer = channel.due(now);
        if (*write.answer) channel.answer_write(memory);
        *write.ready = channel.ready(now);
        if (*write.valid && *write.ready)
            channel.take_write(now, *write.address, write.data, memory);
    }
    void serve_read(uint64_t now, Port::Requests& read, Channel& channel) {
        *read.answer = channel.due(now);
        if (*read.answer) channel.answer_read(read.data, memory);
        *read.ready = channel.ready(now);
        if (*read.valid && *read.ready) channel.take_read(now, *read.address, memory);
    }
    // A head's bits: flow in 15..0, op in 32, continued in 33, collective sequence in 47..40.
    static uint64_t head_bits(const uint8_t* payload) {
        uint64_t head = 0;
        std::memcpy(&head, payload, std::min<size_t>(sizeof head, FLIT_BYTES));
        return head;
    }
    static bool continues(const uint8_t* payload) { return head_bits(payload) >> 33 & 1; }
    Event head_event(uint64_t now, uint8_t p, const uint8_t* payload) const {
        const uint64_t head = head_bits(payload);
        return {now,     0, uint16_t(head),         uint16_t(head >> 40 & 0xff),
                number_, p, uint8_t(head >> 32 & 1), 0};
    }
};
