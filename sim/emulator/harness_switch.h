// One switch: its model, wired to links like a rank's interface, and a cycle of it.
#pragma once
#include "harness_clock.h"
#include "harness_poke.h"

#include <memory>
#include <string>

#if NUM_SWITCH_PORTS
#include "Vswitch___024root.h"
#define BIND_SWITCH(p) ends[p].pins = PINS(model, p);

class Switch {
public:
    End ends[NUM_SWITCH_PORTS];

    void make(uint16_t number, VerilatedContext* context) {
        const std::string name = "switch_" + std::to_string(number);
        model_ = std::make_unique<Vswitch>(context, name.c_str());
        Vswitch& model = *model_;
        FOR_EACH_SWITCH_PORT(BIND_SWITCH)
        // Its FAULT flits carry this number as their origin.
        model.number = number;
    }
    void open_window(int parity) {
        parity_ = parity;
        for (End& end : ends) end.open_window(parity);
    }
    // Samples the outputs of cycle `now` and sets its inputs; outputs come from registers.
    void tick(uint64_t now) {
        afflicted_.strike(now, *model_);
        const bool silent = afflicted_.silent(now);
        for (End& end : ends) {
            end.send(now, parity_, silent);
            end.receive(now, parity_, silent);
        }
    }
    void cycle(uint64_t now) {
        tick(now);
        rise(*model_);
    }
    uint64_t pass(uint64_t, uint64_t) { return 0; }  // it is always evaluated
    // Takes a fault that is to strike from its cycle on; false if the model cannot suffer it.
    bool expect(const Fault& fault) {
        if (fault.kind == POKE && fault.port >= NUM_SWITCH_STATES) return false;
        if (fault.kind == STICK || fault.kind == ERROR) return false;
        if (afflicted_.take(fault)) return true;
        ends[fault.port % NUM_SWITCH_PORTS].expect(fault);
        return true;
    }
    size_t num_faults_pending() const {
        size_t pending = afflicted_.num_faults_pending();
        for (const End& end : ends) pending += end.num_faults_pending();
        return pending;
    }
    void heal() {
        afflicted_.heal();
        for (End& end : ends) end.heal();
    }
    void set_reset(uint8_t level) { model_->rst = level; }
    void set_clock(uint8_t level) {
        model_->clk = level;
        model_->eval();
    }
    template <typename Work> void each_end(Work work) {
        for (End& end : ends) work(end);
    }
    bool may_drop() const { return false; }
    // Ports that have a link which is not up at both ends, bit by bit.
    uint32_t down() const {
        uint32_t ports = 0;
        for (unsigned p = 0; p < NUM_SWITCH_PORTS; ++p)
            if (ends[p].out && !(model_->up >> p & 1)) ports |= 1u << p;
        return ports;
    }
    template <typename Writer> void trace(Writer* writer) { model_->trace(writer, 99); }

private:
    std::unique_ptr<Vswitch> model_;
    Afflicted<Vswitch> afflicted_;
    int parity_ = 0;
};
#else
// A library for networks without switches: none is ever made.
class Switch {
public:
    End ends[1];

    void make(uint16_t, VerilatedContext*) {}
    void open_window(int) {}
    void tick(uint64_t) {}
    void cycle(uint64_t) {}
    uint64_t pass(uint64_t, uint64_t) { return 0; }
    void set_reset(uint8_t) {}
    void set_clock(uint8_t) {}
    template <typename Work> void each_end(Work) {}
    bool expect(const Fault&) { return false; }
    size_t num_faults_pending() const { return 0; }
    void heal() {}
    bool may_drop() const { return false; }
    uint32_t down() const { return 0; }
    template <typename Writer> void trace(Writer*) {}
};
#endif
