//! The program that states rule K7, `tests/k7/k7.py`: its sequences, and 3,000 random ones.

#[path = "../../k7/player.rs"]
mod player;

use std::process::Command;

use support::repository::repository;

#[test]
fn steps_answer_as_the_program_of_the_rule_says() {
    let seed = fastrand::u32(..).to_string();
    let output = Command::new("python3")
        .arg(repository("tests/k7/sequences.py"))
        .args([&*seed, "3000"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap_or_else(|error| panic!("python3: {error}; install it"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    println!("k7: seed {seed}");
    assert_eq!(
        player::check(&String::from_utf8(output.stdout).unwrap()),
        3_017
    );
}
