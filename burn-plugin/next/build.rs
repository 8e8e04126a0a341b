//! Tells the sources, which are those of mlprof-burn, that burn is 0.23.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(burn_0_23)");
    println!("cargo::rustc-cfg=burn_0_23");
}
