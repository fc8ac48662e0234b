// The name under which sources written for MXNet include the tools of operators.
#include "hybridc/nnvm.h"
