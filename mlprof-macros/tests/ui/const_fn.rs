use mlprof_macros::profiled;

#[profiled]
const fn answer() -> u32 {
    42
}

struct Net;

#[profiled]
impl Net {
    pub const fn width(&self) -> u32 {
        answer()
    }
}

fn main() {
    const { answer() };
    let _ = Net.width();
}
