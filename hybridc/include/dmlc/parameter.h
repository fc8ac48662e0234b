// The name under which sources written for MXNet include parameters.
#include "../hybridc/nnvm.h"
