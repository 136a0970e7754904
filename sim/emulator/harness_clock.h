// The clock of a model that is not traced.
#pragma once

// A rising edge. There is no falling one, which would evaluate all that follows inputs once more:
// the model is made to take the clock for low before.
template <typename Model> void rise(Model& model) {
    model.rootp->__Vtrigprevexpr___TOP__clk__0 = 0;
    model.clk = 1;
    model.eval();
}
