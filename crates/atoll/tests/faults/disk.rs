//! Full and read-only disks: small file systems, mounted where the current user may do so.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Command;

use atoll_testkit::wait::eventually;
use atoll_testkit::{Setup, Watch, names, revision};
use tempfile::TempDir;

use crate::support::{CONFIG_MAPS, config_map, config_map_with};

/// A file system in memory, unmounted on drop.
struct Disk {
    place: TempDir,
}

impl Disk {
    /// Returns `None`, with a printed reason, where the current user may not mount.
    fn mount(megabytes: usize) -> Option<Disk> {
        let place = tempfile::tempdir().unwrap();
        let size = format!("size={megabytes}m,mode=700");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place.path()).output();
        let problem = match mount {
            Ok(output) if output.status.success() => return Some(Disk { place }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_string(),
            Err(error) => error.to_string(),
        };
        eprintln!("skipped: no small disk can be mounted here: {problem}");
        None
    }

    fn path(&self) -> &Path {
        self.place.path()
    }

    fn remount(&self, option: &str) {
        let options = format!("remount,{option}");
        let done = Command::new("mount").args(["-o", &options]).arg(self.path()).status().unwrap();
        assert!(done.success(), "cannot remount with {option}");
    }

    /// Fills the remaining space.
    fn fill(&self) -> File {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path().join("filler")).unwrap();
        for size in [1 << 20, 4096, 1] {
            let piece = vec![0; size];
            loop {
                match file.write_all(&piece) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        file
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a server that is exiting may have open files on it.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_fails_writes_only_until_space_is_freed() {
    let Some(disk) = Disk::mount(24) else { return };
    let mut atoll = Setup::new().flag("--controllers", false).directory(&disk.path().join("data")).start();
    let admin = atoll.admin();
    admin.post(CONFIG_MAPS, config_map_with("before", "1")).await.expect(201);
    let start = revision(&admin.get(CONFIG_MAPS).await.expect(200));
    let mut watch = Watch::open(&admin, &format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).await;

    disk.fill();
    // The write-ahead log has some preallocated space, so the first writes may succeed.
    let value = "x".repeat(100_000);
    let mut acknowledged = vec!["before".to_string()];
    let refused = loop {
        let name = format!("full-{:03}", acknowledged.len());
        let answer = admin.post(CONFIG_MAPS, config_map_with(&name, &value)).await;
        if answer.status != 201 {
            break answer;
        }
        acknowledged.push(name);
        assert!(acknowledged.len() < 1000, "100 MB must not fit on this disk");
    };
    let message = refused.expect_status(503, "ServiceUnavailable");
    assert!(message.contains("disk") && message.contains("full"), "{message}");

    // Reads keep working, including existing and new watches.
    admin.get(&config_map("before")).await.expect(200);
    assert_eq!(names(&admin.get(CONFIG_MAPS).await.expect(200)), acknowledged);
    for name in &acknowledged[1..] {
        assert_eq!(watch.event().await.name(), name);
    }
    let mut second = Watch::open(&admin, &format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).await;
    for name in &acknowledged[1..] {
        assert_eq!(second.event().await.name(), name);
    }
    assert_eq!(admin.get("/livez").await.text(), "ok");

    std::fs::remove_file(disk.path().join("filler")).unwrap();
    eventually("writes go through again", async || {
        admin.post(CONFIG_MAPS, config_map_with("zz-after", "1")).await.status == 201
    })
    .await;
    acknowledged.push("zz-after".into());
    // No rejected write appears, neither now nor after a restart.
    assert_eq!(watch.event().await.name(), "zz-after");
    assert_eq!(second.event().await.name(), "zz-after");
    for _ in 0..2 {
        assert_eq!(names(&admin.get(CONFIG_MAPS).await.expect(200)), acknowledged);
        atoll.kill();
        atoll.restart();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_killed_on_a_full_disk_recovers_all_data() {
    let Some(disk) = Disk::mount(24) else { return };
    let mut atoll = Setup::new().flag("--controllers", false).directory(&disk.path().join("data")).start();
    let admin = atoll.admin();
    let value = "x".repeat(100_000);
    disk.fill();
    let mut acknowledged = Vec::new();
    loop {
        let name = format!("full-{:03}", acknowledged.len());
        if admin.post(CONFIG_MAPS, config_map_with(&name, &value)).await.status != 201 {
            break;
        }
        acknowledged.push(name);
    }
    atoll.kill();
    if let Err(failed) = Setup::new().directory(&atoll.directory).try_start() {
        // The server may fail to start, but reports the reason and damages nothing.
        let is_reported = ["is full", "No space left"].iter().any(|words| failed.errors.contains(words));
        assert!(is_reported, "{}", failed.errors);
    }
    std::fs::remove_file(disk.path().join("filler")).unwrap();
    atoll.restart();
    assert_eq!(names(&atoll.admin().get(CONFIG_MAPS).await.expect(200)), acknowledged);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_disk_is_rejected_with_a_hint_and_works_when_writable() {
    let Some(disk) = Disk::mount(24) else { return };
    let mut atoll = Setup::new().flag("--controllers", false).directory(&disk.path().join("data")).start();
    atoll.admin().post(CONFIG_MAPS, config_map_with("a", "1")).await.expect(201);
    atoll.terminate();
    assert!(atoll.wait().success());
    disk.remount("ro");
    let failed =
        Setup::new().directory(&atoll.directory).try_start().err().expect("the server must not start");
    assert_eq!(failed.status.code(), Some(1));
    let advised = failed.errors.contains("cannot be written to; remount it writable");
    assert!(advised, "{}", failed.errors);
    disk.remount("rw");
    atoll.restart();
    assert_eq!(names(&atoll.admin().get(CONFIG_MAPS).await.expect(200)), ["a"]);
}
