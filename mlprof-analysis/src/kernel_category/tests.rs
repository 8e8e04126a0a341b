use super::*;
use crate::answers::KernelCategory::Other;

fn kernel(name: &str) -> KernelCategory {
    of(Category::Kernel, name, None)
}

#[test]
fn names_of_libraries_tell_categories() {
    for (category, names) in [
        (
            Gemm,
            [
                "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_tn>(x)",
                "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x64x64_cublas",
                "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT64x32x128",
                "nvjet_tst_64x16_64x16_2x4_2cta_h_bz_bias_TNT",
                "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_swiGlu_dynBatch_sm100f",
                "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x128x1_swiglu",
                "void cublasLt::splitKreduce_kernel<32, 16, int, float>(x)",
                "void gemv2T_kernel_val<int, int, float>(x)",
                "fused_moe_kernel",
                "triton_tem_fused_addmm_3",
                "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<x> >(y)",
                "void marlin::Marlin<half, 256>(x)",
                "volta_h884gemm_64x128_ldg8_nn",
                "ampere_sgemm_128x64_tn",
            ]
            .as_slice(),
        ),
        (
            Attention,
            &[
                "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Traits<64, 128> >(p)",
                "attn_fwd",
                "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128",
                "void cutlass::device_kernel<flash::FlashAttnFwdSm90<x> >(p)",
                "void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<x> >(p)",
                "kernel_unified_attention_2d",
                "_fwd_grouped_kernel_stage1",
                "void vllm::paged_attention_v2_kernel<x>(p)",
                "triton_tem_fused_flex_attention_0",
            ],
        ),
        (
            Convolution,
            &[
                "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized>(x)",
                "igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt64x64x16",
                "sm80_xmma_dgrad_implicit_gemm_f16f16_nhwckrsc_nhwc",
                "void cudnn::winograd_nonfused::winogradForwardData4x4<float>(x)",
                "miopenSp3AsmConv_v30_3_1_gfx9_fp32_f2x3_stride1",
                "maxwell_scudnn_128x64_relu_interior_nn_v1",
                "void at::native::im2col_kernel<float>(x)",
                "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<1>(x)",
                "_causal_conv1d_fwd_kernel",
            ],
        ),
        (
            Normalisation,
            &[
                "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(x)",
                "std::enable_if<(8>0), void>::type vllm::fused_add_rms_norm_kernel<float, 8>(x)",
                "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, 512>(x)",
                "MIOpenBatchNormFwdTrainSpatial",
                "void at::native::batch_norm_collect_statistics_kernel<float>(x)",
                "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0",
                "triton_per_fused_native_layer_norm_4",
                "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<x>(y)",
            ],
        ),
        (
            Reduction,
            &[
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, x> >(y)",
                "void (anonymous namespace)::softmax_warp_forward<float, float, 7, false>(x)",
                "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, x>(y)",
                "triton_red_fused_sum_3",
                "triton_per_fused__softmax_0",
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<T, \
                 at::native::LpNormFunctor<float> >(x)",
                "void at::native::nll_loss_forward_reduce_cuda_kernel_2d<float>(x)",
                "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(x)",
            ],
        ),
        (
            Elementwise,
            &[
                "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDA>(x)",
                "void at::native::vectorized_elementwise_kernel<4, at::native::softmax_like>(x)",
                "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<int> >(x)",
                "triton_poi_fused_convolution_relu_0",
                "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(x)",
                "void vllm::act_and_mul_kernel<c10::BFloat16>(x)",
                "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16>(x)",
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<T, \
                 FusedAdamMathFunctor<float> >(x)",
                "void at::native::elementwise_kernel_with_index<int, x>(y)",
                "loop_add_fusion",
                // This kernel is not a convolution.
                "void (anonymous namespace)::convert_kernel(x)",
                "badd_f32",
            ],
        ),
        (
            Copy,
            &[
                "Memcpy DtoD (Device -> Device)",
                "__amd_rocclr_copyBuffer",
                "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel>(x)",
                "void at::native::(anonymous namespace)::CatArrayBatchedCopy<x>(y)",
                "void at::native::vectorized_gather_kernel<16, long>(x)",
                "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(x)",
                "batched_transpose_32x16_half",
                "ucopy_f32",
            ],
        ),
        (Memset, &["Memset (Device)", "__amd_rocclr_fillBufferAligned"]),
        (Other, &["hip", "k0", "void f<int>(int)", "spin_kernel", ""]),
    ] {
        for name in names {
            assert_eq!(kernel(name), category, "{name}");
        }
    }
}

#[test]
fn ops_tell_what_names_do_not() {
    let of_op = |name: &str, op: &str| of(Category::Kernel, name, Some(op));
    assert_eq!(of_op("k", "aten::addmm"), Gemm);
    assert_eq!(of_op("k", "aten::_flash_attention_forward"), Attention);
    assert_eq!(of_op("k", "aten::miopen_convolution"), Convolution);
    assert_eq!(of_op("k", "aten::native_layer_norm"), Normalisation);
    assert_eq!(of_op("k", "aten::linalg_vector_norm"), Reduction);
    assert_eq!(of_op("k", "aten::add_"), Elementwise);
    assert_eq!(of_op("k", "aten::index_select"), Copy);
    assert_eq!(of_op("k", "my::own"), Other);
    // The kernel name is more specific than the op.
    assert_eq!(of_op("attn_fwd", "my::mm"), Attention);
    // Helper kernels get the category of the operation that they support.
    for helper in ["batched_transpose_32x16_half", "SubTensorOpWithScalar1d"] {
        assert_eq!(of_op(helper, "aten::miopen_convolution"), Convolution);
    }
    assert_eq!(of_op("batched_transpose_32x16_half", "aten::clone"), Copy);
}

#[test]
fn copies_and_fills_of_a_device_need_no_name() {
    assert_eq!(of(Category::GpuMemcpy, "x", None), Copy);
    assert_eq!(of(Category::GpuMemset, "x", None), Memset);
}
