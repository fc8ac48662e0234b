// The name under which sources written for MXNet 1.9 include this API.
#include "../hybridc/extension.h"
