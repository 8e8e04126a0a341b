// Text for programs without their own allocator.

/*CONDITION*/
#[allow(warnings, clippy::all, clippy::pedantic, clippy::restriction)]
#[doc(hidden)]
const _: () = {
    #[global_allocator]
    static MLPROF_ALLOCATOR: __mlprof_allocator::Tracking<::std::alloc::System> =
        __mlprof_allocator::Tracking::around(::std::alloc::System);
};
