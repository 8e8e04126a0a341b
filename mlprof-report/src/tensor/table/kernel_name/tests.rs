use proptest::prelude::*;

use super::*;

fn short(name: &str) -> String {
    super::short(name, 80)
}

#[test]
fn a_kernel_of_pytorch_keeps_function_and_first_arguments() {
    let add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, \
               std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, \
               std::array<char*, 3ul>)";
    let expected =
        "at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<…>, …>";
    assert_eq!(short(add), expected);
    assert_eq!(
        short(
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, \
             at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::\
             operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4> >\
             (at::native::ReduceOp<float, unsigned int, float, 4>)"
        ),
        "at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, …>>"
    );
}

/// Checks names from PyTorch 2.11 and CUPTI on an H200.
#[test]
fn lambdas_and_operators_inside_of_arguments_are_no_path() {
    let lambda = "void at::native::vectorized_elementwise_kernel<4, at::native::addcdiv_cuda_kernel\
        (at::TensorIteratorBase&, c10::Scalar const&)::{lambda()#2}::operator()() const::\
        {lambda()#7}::operator()() const::{lambda(float, float, float)#1}, std::array<char*, 4ul> >\
        (int, at::native::addcdiv_cuda_kernel(at::TensorIteratorBase&, c10::Scalar const&)::\
        {lambda()#2}::operator()() const::{lambda()#7}::operator()() const::\
        {lambda(float, float, float)#1}, std::array<char*, 4ul>)";
    let unary = "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, \
        float, float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int, \
        at::native::AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> \
        >, std::array<char*, 2ul>)";
    for name in [lambda, unary] {
        assert_eq!(super::short(name, 51), "at::native::vectorized_elementwise_kernel<4, …>");
        assert_eq!(super::short(name, 26), "vectorized_el…twise_kernel");
        assert_eq!(function(name), "at::native::vectorized_elementwise_kernel");
    }
}

#[test]
fn short_names_lose_only_return_type_and_parameters() {
    for (name, expected) in [
        ("vecAdd(float const*, int)", "vecAdd"),
        ("void f<int>(float)", "f<int>"),
        ("unsigned long a::f<b<int>, 3>(x) const", "a::f<b<int>, 3>"),
        ("(anonymous namespace)::fill(float*)", "(anonymous namespace)::fill"),
        ("void (anonymous namespace)::fill<int>(float*)", "(anonymous namespace)::fill<int>"),
        ("a::b<int>::operator()(int, float) const", "a::b<int>::operator()"),
        (
            "a::f(int)::{lambda(int)#1}::operator()(int) const",
            "a::f(int)::{lambda(int)#1}::operator()",
        ),
        ("bool operator<(a const&, a const&)", "operator<"),
        ("bool operator<< <int>(a, b)", "operator<< <int>"),
        ("a operator-><int>(a)", "operator-><int>"),
        ("a::operator bool() const", "a::operator bool"),
        ("void f<((3) > (2)), int>(int)", "f<((3) > (2)), int>"),
        ("void f<(3 < 2)>(int)", "f<(3 < 2)>"),
        ("decltype (g(1)) f<int>(int) [clone .isra.0]", "f<int>"),
        ("f", "f"),
        ("", ""),
        ("cooperator<int>(int)", "cooperator<int>"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("volta_sgemm_128x64_nn", "volta_sgemm_128x64_nn"),
        ("_RNvCs1234_7mycrate3foo", "_RNvCs1234_7mycrate3foo"),
    ] {
        assert_eq!(short(name), expected);
    }
}

#[test]
fn a_function_has_no_arguments() {
    for (name, expected) in [
        ("void at::native::reduce_kernel<512, 1, f<int> >(f<int>)", "at::native::reduce_kernel"),
        ("void cutlass::Kernel2<cutlass_80_gemm>(cutlass_80_gemm::Params)", "cutlass::Kernel2"),
        ("void (anonymous namespace)::softmax<float>(float*)", "::softmax"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD "),
    ] {
        assert_eq!(function(name), expected);
    }
}

#[test]
fn an_only_argument_loses_its_end() {
    let name = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64>(x)";
    assert_eq!(super::short(name, 48), "cutlass::Kernel2<cutlass_80_tensorop_bf16_s168…>");
    assert_eq!(super::short(name, 24), "cutlass::Kernel2<…>");
}

#[test]
fn text_after_template_arguments_is_kept() {
    let arguments = "a::b::c<int>, ".repeat(20);
    let name = format!("void cutlass::Kernel<{arguments}float>::run<{arguments}int>(int)");
    assert_eq!(
        short(&name),
        "cutlass::Kernel<a::b::c<int>, a::b::c<int>, a::b::c<int>, a::b::c<…>, …>::run<…>"
    );
}

#[test]
fn long_paths_lose_their_first_parts_and_long_names_their_middle() {
    let path = "outermost_of_all::".repeat(5);
    assert_eq!(
        short(&format!("void {path}function<int>(int)")),
        "…::outermost_of_all::outermost_of_all::outermost_of_all::function<int>"
    );
    let long = "a".repeat(100);
    let cut = format!("{}…{}", "a".repeat(40), "a".repeat(39));
    assert_eq!(short(&long), cut);
    assert_eq!(short(&format!("void n::{long}<int>(int)")), cut);
}

#[test]
fn names_of_many_brackets_are_no_burden() {
    for open in ["<", "(", "[", "{", "a<", "a<b, ", "(((a<", "operator", "operator<"] {
        assert!(length(&short(&open.repeat(50_000))) <= 80);
    }
    let nested = format!("f{}{}", "<a".repeat(30_000), ">".repeat(30_000));
    assert_eq!(is_balanced(&short(&nested)), Some(true));
    let flat = format!("f<{}>", "a, ".repeat(30_000));
    assert_eq!(is_balanced(&short(&flat)), Some(true));
}

/// Returns `true` if the brackets are balanced, or `None` if there are none.
fn is_balanced(text: &str) -> Option<bool> {
    let mut open = Vec::new();
    let mut any = false;
    for character in text.chars() {
        any |= "()<>[]{}".contains(character);
        match character {
            '(' => open.push(')'),
            '<' => open.push('>'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | '>' | ']' | '}' if open.pop() != Some(character) => return Some(false),
            _ => {}
        }
    }
    any.then_some(open.is_empty())
}

/// Generates names with balanced brackets.
fn names() -> impl Strategy<Value = String> {
    let leaf = "[a-z]{1,12}(::[a-z]{1,12}){0,3}|[0-9]{1,3}(ul)?";
    leaf.prop_recursive(8, 200, 6, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..6).prop_map(|list| list.join(", "));
        ("[a-z]{1,20}", list, prop::sample::select(&["<>", "()"][..]), inner).prop_map(
            |(name, list, brackets, rest)| {
                let (open, close) = brackets.split_at(1);
                format!("{name}{open}{list}{close}::{rest}")
            },
        )
    })
}

proptest! {
    #[test]
    fn short_names_are_short_and_balanced(name in names()) {
        for name in [name.clone(), format!("void {name}<int, {name}>({name})")] {
            let short = short(&name);
            prop_assert!(length(&short) <= 80, "{short}");
            prop_assert_ne!(is_balanced(&short), Some(false), "{}", short);
        }
    }

    #[test]
    fn no_text_does_harm(
        text in "([a-z,: ä…]|operator|[<>(){}\\[\\]-]|::|, ){0,200}",
        any in "\\PC{0,200}",
    ) {
        prop_assert!(length(&short(&text)) <= 80);
        prop_assert!(length(&short(&any)) <= 80);
    }
}
