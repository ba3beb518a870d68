#include "frontend/microsoft_schemas.h"

namespace braid::frontend {

const char* const kMicrosoftSchemas = R"(
AllGather: T* inputs -> T* outputs
  with axis = 0, group_size = 1
  where T = values
AllReduce: T* inputs -> T* outputs
  where T = values
AllToAll: T* inputs -> T* outputs
  with group_size = 1
  where T = values
Attention: T input, T weights, T? bias, M? mask_index, T? past, T? attention_bias, M? past_sequence_length
    -> T output, T? present
  with do_rotary = 0, mask_filter_value = -10000.0, num_heads int, past_present_share_buffer = 0,
    qkv_hidden_sizes ints?, rotary_embedding_dim = 0, scale = 0.0, unidirectional = 0
  where T = narrow; M = int32
BiasAdd: T X, T bias, T skip -> T Y
  where T = floats
BiasGelu: T X, T B -> T Y
  where T = floats
BiasSplitGelu: T X, T bias -> T Y
  where T = floats
DequantizeLinear: T1 x, T2 x_scale, T1? x_zero_point -> T2 y
  with axis int?
  where T1 = int8 uint8 int16 uint16 int4 uint4 int32; T2 = float16 float
DynamicQuantizeLSTM: T X, T2 W, T2 R, T? B, T1? sequence_lens, T? initial_h, T? initial_c, T? P, T W_scale,
    T2 W_zero_point, T R_scale, T2 R_zero_point -> T? Y, T? Y_h, T? Y_c
  with activation_alpha floats?, activation_beta floats?, activations strings?, clip float?,
    direction = "forward", hidden_size int?, input_forget = 0
  where T = float; T1 = int32; T2 = bytes
DynamicQuantizeMatMul: T1 A, T2 B, T1 b_scale, T2? b_zero_point, T1? bias -> T1 Y
  where T1 = float; T2 = bytes
EmbedLayerNormalization: I input_ids, I? segment_ids, T word_embedding, T position_embedding,
    T? segment_embedding, T gamma, T beta, I? mask, I? position_ids -> T output, I? mask_index,
    T? embedding_sum
  with epsilon = 1e-12, mask_index_type = 0
  where I = int32; T = narrow
FastGelu: T X, T? bias -> T Y
  where T = floats
FusedConv: T X, T W, T? B, T? Z -> T Y
  with activation = "", activation_params floats?, auto_pad = "NOTSET", dilations ints?, group = 1,
    kernel_shape ints?, pads ints?, strides ints?
  where T = float double float16
FusedGemm: T A, T B, T? C -> T Y
  with activation = "", activation_alpha float?, activation_beta float?, activation_gamma float?,
    alpha = 1.0, beta = 1.0, transA = 0, transB = 0
  where T = float double float16
FusedMatMul: T A, T B -> T Y
  with alpha = 1.0, transA = 0, transB = 0, transBatchA = 0, transBatchB = 0
  where T = floats
GatherBlockQuantized: D data, I indices, T scales, D? zero_points -> T output
  with bits = 4, block_size = 128, gather_axis = 0, quantize_axis = 1
  where D = uint8 int4 uint4; I = int32 int64; T = narrow
Gelu: T X -> T Y
  where T = floats
GemmFastGelu: T X, T W, T? bias -> T Y
  where T = narrow
GroupNorm: T X, M gamma, M beta -> T Y
  with activation int, channels_last = 1, epsilon = 1e-5, groups int
  where T = float float16; M = float float16
GroupQueryAttention: T query, T? key, T? value, C? past_key, C? past_value, M seqlens_k,
    M total_sequence_length, T? cos_cache, T? sin_cache, tensor(int64)? position_ids, T? attention_bias,
    T? head_sink, S? k_scale, S? v_scale, T? q_norm_weight, T? k_norm_weight -> T output, C? present_key,
    C? present_value, T? output_qk
  with causal = 1, do_rotary = 0, k_quant_type = "NONE", kv_cache_bit_width = 0, kv_num_heads int,
    local_window_size = -1, num_heads int, qk_norm_epsilon = 1e-6, qk_output = 0, rotary_interleaved = 0,
    scale = 0.0, sliding_window_cache = 0, smooth_softmax = -1, softcap = 0.0, v_quant_type = "NONE"
  where T = narrow; M = int32; C = float float16 bfloat16 uint8 int8 float8e4m3fn; S = float
MatMulIntegerToFloat: T1 A, T2 B, T3 a_scale, T3 b_scale, T1? a_zero_point, T2? b_zero_point, T3? bias
    -> T3 Y
  where T1 = bytes; T2 = bytes; T3 = float float16
MatMulNBits: T A, B B, T scales, Z? zero_points, G? g_idx, T? bias -> T Y
  with K int, N int, accuracy_level = 0, bits = 4, block_size int, weight_prepacked = 0
  where T = narrow; B = uint8; Z = uint8 float float16 bfloat16; G = int32
MultiHeadAttention: T query, T? key, T? value, T? bias, M? key_padding_mask, T? attention_bias, T? past_key,
    T? past_value, M? past_sequence_length, M? cache_indirection -> T output, T? present_key,
    T? present_value, T? qk
  with mask_filter_value = -10000.0, num_heads int, scale = 0.0, unidirectional = 0
  where T = narrow; M = int32
NhwcConv: T X, T W, T? B -> T Y
  with auto_pad = "NOTSET", dilations ints?, group = 1, kernel_shape ints?, pads ints?, strides ints?
  where T = float double float16
NhwcFusedConv: T X, T W, T? B, T? Z -> T Y
  with activation = "", activation_params floats?, auto_pad = "NOTSET", dilations ints?, group = 1,
    kernel_shape ints?, pads ints?, strides ints?
  where T = float double float16
QAttention: T1 input, T2 weight, T3 bias, T3 input_scale, T3 weight_scale, T4? mask_index,
    T1? input_zero_point, T2? weight_zero_point, T3? past -> T3 output, T3? present
  with do_rotary = 0, mask_filter_value float?, num_heads int, past_present_share_buffer = 0,
    unidirectional = 0
  where T1 = bytes; T2 = bytes; T3 = float float16; T4 = int32
QEmbedLayerNormalization: T1 input_ids, T1? segment_ids, T2 word_embedding_quant,
    T2 position_embedding_quant, T2? segment_embedding, T2 gamma_quant, T2 beta_quant, T1? mask,
    T word_embedding_scale, T position_embedding_scale, T? segment_embedding_scale, T gamma_scale,
    T beta_scale, T2 word_embedding_zero_point, T2 position_embedding_zero_point,
    T2? segment_embedding_zero_point, T2 gamma_zero_point, T2 beta_zero_point -> T layernorm_out,
    T1 mask_index_out
  with epsilon = 1e-12
  where T1 = int32; T2 = bytes; T = float
QGemm: TA A, T a_scale, TA a_zero_point, TB B, T b_scale, TB b_zero_point, TC? C, T? y_scale,
    TYZ? y_zero_point -> TY Y
  with alpha = 1.0, transA = 0, transB = 0
  where T = float; TA = bytes; TB = bytes; TC = int32; TYZ = bytes; TY = float uint8 int8
QLinearAdd: T A, tensor(float) A_scale, T? A_zero_point, T B, tensor(float) B_scale, T? B_zero_point,
    tensor(float) C_scale, T? C_zero_point -> T C
  where T = bytes
QLinearAveragePool: T X, tensor(float) X_scale, T? X_zero_point, tensor(float) Y_scale, T? Y_zero_point
    -> T Y
  with auto_pad = "NOTSET", ceil_mode = 0, channels_last = 0, count_include_pad = 0, kernel_shape ints,
    pads ints?, strides ints?
  where T = bytes
QLinearConcat: TF Y_scale, T8 Y_zero_point, TV* inputs -> T8 Y
  with axis int
  where TF = float; T8 = bytes; TV = uint8 int8 float
QLinearConv: T1 x, tensor(float) x_scale, T1 x_zero_point, T2 w, tensor(float) w_scale, T2 w_zero_point,
    tensor(float) y_scale, T3 y_zero_point, T4? B -> T3 y
  with auto_pad = "NOTSET", channels_last = 0, dilations ints?, group = 1, kernel_shape ints?, pads ints?,
    strides ints?
  where T1 = bytes; T2 = bytes; T3 = bytes; T4 = int32
QLinearGlobalAveragePool: T X, tensor(float) X_scale, T? X_zero_point, tensor(float) Y_scale,
    T? Y_zero_point -> T Y
  with channels_last = 0
  where T = bytes
QLinearLeakyRelu: T X, tensor(float) X_scale, T? X_zero_point, tensor(float) Y_scale, T? Y_zero_point -> T Y
  with alpha = 0.01
  where T = bytes
QLinearMul: T A, tensor(float) A_scale, T? A_zero_point, T B, tensor(float) B_scale, T? B_zero_point,
    tensor(float) C_scale, T? C_zero_point -> T C
  where T = bytes
QLinearReduceMean: T X, tensor(float) X_scale, T? X_zero_point, tensor(float) Y_scale, T? Y_zero_point
    -> T Y
  with axes ints?, keepdims = 1
  where T = bytes
QLinearSigmoid: T X, tensor(float) X_scale, T? X_zero_point, tensor(float) Y_scale, T? Y_zero_point -> T Y
  where T = bytes
QLinearSoftmax: T X, tensor(float) X_scale, T? X_zero_point, tensor(float) Y_scale, T? Y_zero_point -> T Y
  with axis = -1, opset int
  where T = bytes
QLinearWhere: B condition, T X, TF x_scale, T x_zero_point, T Y, TF y_scale, T y_zero_point, TF z_scale,
    T z_zero_point -> T Z
  where B = bool; T = bytes; TF = float
QuantizeLinear: T1 x, T1 y_scale, T2? y_zero_point -> T2 y
  with axis int?
  where T1 = float16 float; T2 = stored
QuickGelu: T X -> T Y
  with alpha = 1.702
  where T = floats
RotaryEmbedding: T input, M position_ids, T cos_cache, T sin_cache -> T output
  with interleaved = 0, is_packed_batching = 0, num_heads = 0, rotary_embedding_dim = 0, scale = 1.0
  where T = narrow; M = int64
SkipGroupNorm: T X, M gamma, M beta, T skip, T? bias -> T Y, T? S
  with activation int, channels_last = 1, epsilon = 1e-5, groups int
  where T = float float16; M = float float16
SkipLayerNormalization: T input, T skip, T gamma, T? beta, T? bias -> T output, U? mean, U? inv_std_var,
    T? input_skip_bias_sum
  with epsilon = 1e-12
  where T = narrow; U = float
SkipSimplifiedLayerNormalization: T input, T skip, T gamma, T? bias -> T output, U? mean, U? inv_std_var,
    T? input_skip_bias_sum
  with epsilon = 1e-12
  where T = narrow; U = float
TransposeMatMul: T A, T B -> T Y
  with alpha = 1.0, transA = 0, transB = 0
  where T = floats
)";

}  // namespace braid::frontend
