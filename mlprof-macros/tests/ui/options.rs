use mlprof_macros::profiled;

#[profiled(nmae = "load")]
fn misspelt() {}

#[profiled(name = load)]
fn not_a_literal() {}

#[profiled(name = "a", name = "b")]
fn twice() {}

#[profiled(skip)]
fn skipped() {}

struct Net;

#[profiled]
impl Net {
    #[profiled(sort)]
    fn forward(&self) {}
}

#[profiled]
impl Net {
    #[profiled]
    #[profiled(name = "again")]
    fn backward(&self) {}
}

fn main() {
    misspelt();
    not_a_literal();
    twice();
    skipped();
    Net.forward();
    Net.backward();
}
