pub(crate) fn below() -> u32 {
    1
}
