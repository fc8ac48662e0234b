/* my_scale, in C: factor·x, with the attribute `factor` (1 where it is not given). */
#include <hybridc/extension_c.h>

static int factor_of(const hybridc_attributes* attributes, double* factor) {
  const char* text = hybridc_attribute(attributes, "factor", "1");
  char* end = NULL;
  *factor = strtod(text, &end);
  if (*text != '\0' && *end == '\0') return 1;
  return hybridc_error("my_scale: factor is a number, got \"%s\"", text);
}

static int scale(const hybridc_attributes* attributes, const hybridc_tensor* x, const hybridc_tensor* y) {
  double factor = 0;
  if (!factor_of(attributes, &factor)) return 0;
  for (int64_t i = 0; i < hybridc_size(x); ++i) {
    if (x->type == HYBRIDC_FLOAT64) {
      ((double*)y->data)[i] = factor * ((const double*)x->data)[i];
    } else {
      ((float*)y->data)[i] = (float)(factor * ((const float*)x->data)[i]);
    }
  }
  return 1;
}

/* x → y */
static int forward(const hybridc_attributes* attributes, const hybridc_tensor* inputs, int num_inputs,
                   const hybridc_tensor* outputs, int num_outputs, const hybridc_resource* resource) {
  return scale(attributes, &inputs[0], &outputs[0]);
}

/* dy, x, y → dx */
static int backward(const hybridc_attributes* attributes, const hybridc_tensor* inputs, int num_inputs,
                    const hybridc_tensor* outputs, int num_outputs, const hybridc_resource* resource) {
  return scale(attributes, &inputs[0], &outputs[0]);
}

static int parse(const hybridc_attributes* attributes, int* num_inputs, int* num_outputs) {
  double factor = 0;
  return factor_of(attributes, &factor);
}

static int infer_type(const hybridc_attributes* attributes, int* inputs, int num_inputs, int* outputs,
                      int num_outputs) {
  if (inputs[0] > HYBRIDC_FLOAT64) return hybridc_error("my_scale: float32 or float64, got type %d", inputs[0]);
  outputs[0] = inputs[0];
  return 1;
}

const hybridc_operator hybridc_operators[] = {
    {.name = "my_scale",
     .num_inputs = 1,
     .num_outputs = 1,
     .parse_attributes = parse,
     .infer_type = infer_type,
     .forward = forward,
     .backward = backward},
};
const int hybridc_operator_count = 1;
