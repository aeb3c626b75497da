//! Paths of sockets, beside the host: relative ones, and those through symbolic links.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::overlay::{state, text};
use super::{OURS, folder, run, shown};

/// Binds, connects and sends in the directory `ov`, from there and from `out` beside it. Prints
/// how each call ends, and the addresses.
const SCRIPT: &str = r#"
    use Errno; use Socket;
    sub e { print "$_[0] ", $_[1] ? 'ok' : (grep { $!{$_} } qw(EADDRINUSE ENOENT ECONNREFUSED
        EPROTOTYPE ELOOP ENOTDIR EINVAL EACCES))[0] // $!, "\n"; }
    sub name { my $at = shift // ''; length $at > 2 ? unpack_sockaddr_un($at) : 'none' }
    sub made { socket(my $s, AF_UNIX, shift, 0) or die; $s }
    sub bound { my ($kind, $path) = @_; my $s = made($kind);
        e("bind $path", bind($s, pack_sockaddr_un($path))); print ' ', name(getsockname $s), "\n"; $s }
    sub meet { my ($kind, $path) = @_; my $s = made($kind);
        e("connect $path", connect($s, pack_sockaddr_un($path))); print ' ', name(getpeername $s), "\n"; $s }
    my $links = shift;
    chdir 'ov' or die;
    mkdir 'd' or die;
    symlink 'd', 'to_d'; symlink 'd/s', 'to_s'; symlink 'nowhere', 'dangling'; symlink 'loop', 'loop';
    open my $plain, '>', 'plain' or die;
    my $s = bound(SOCK_STREAM, 'd/s'); listen $s, 20;
    my $g = bound(SOCK_DGRAM, './to_d/g');
    print -S 'd/g' ? "a socket\n" : "none\n";
    bound(SOCK_STREAM, $_) for 'd/s', 'to_s', 'dangling', 'loop', 'to_d/', 'none/s', 'plain/s', 'loop/s';
    my @kept = map { meet(SOCK_STREAM, $_) } 'd/s', 'to_d/s', 'to_s', './d/../to_s', 'dangling', 'loop',
        'plain', 'd', 'd/g', 'plain/s', 'to_s/';
    accept(my $a, $s) or die;
    print 'accepted ', name(getsockname $a), ' ', name(getpeername $a), "\n";
    for my $path ('to_d/g', 'd/s', 'dangling', 'plain') {
        e("send $path", send(made(SOCK_DGRAM), 'text', 0, pack_sockaddr_un($path)));
    }
    my $client = bound(SOCK_DGRAM, 'client');
    e('send', send($client, 'named', 0, pack_sockaddr_un('to_d/g')));
    for (1, 2) { my $from = recv($g, my $text, 9, 0); print "$text ", name($from), "\n" }
    rename 'd', 'moved' or die;
    meet(SOCK_STREAM, $_) for 'moved/s', 'd/s', 'to_s';
    unlink 'moved/s' or die;
    meet(SOCK_STREAM, 'moved/s');
    exit unless $links;
    $| = 1;
    symlink '../out/into/moved/g', 'around' or die;
    chdir '../out' or die;
    for my $path ('into/moved/g', '../ov/moved/g', 'to_g', '../ov/around') {
        meet(SOCK_DGRAM, $path);
        e("send $path", send(made(SOCK_DGRAM), 'text', 0, pack_sockaddr_un($path)));
    }
    bound(SOCK_DGRAM, $_) for 'into/new', 'to_new', '../ov/around';
    print -S '../ov/new' ? "a socket\n" : "none\n";
    opendir my $out, '.'; chdir 'into/moved' or die; rename '../moved', '../again' or die;
    meet(SOCK_DGRAM, 'g'); bound(SOCK_DGRAM, 'h');
    print join(' ', sort map { s{.*/}{}r } glob '../again/*'), "\n";
"#;

/// A folder with the directory `ov`, and `out` with links into it.
fn beside(test: &str) -> (PathBuf, PathBuf) {
    let top = folder(test);
    fs::create_dir(top.join("ov")).expect("a directory");
    fs::create_dir(top.join("out")).expect("a directory");
    for (link, to) in [
        ("into", "../ov"),
        ("to_g", "../ov/moved/g"),
        ("to_new", "../ov/newer"),
        ("to_hs", "hs"),
    ] {
        symlink(to, top.join("out").join(link)).expect("a link");
    }
    let ov = top.join("ov");
    (top, ov)
}

#[track_caller]
fn same_sockets(test: &str, options: impl Fn(&Path) -> Vec<String>, links: &str) {
    let script = [SCRIPT, ON_THE_HOST].concat();
    let words = ["perl", "-e", &script, links];
    let (top, _) = beside(test);
    let expected = shown(&run(&[], &words, &top));
    assert!(expected.starts_with("Some(0)\n"), "{expected}");
    let (top, ov) = beside(test);
    let before = state(&ov);
    let options = options(&top);
    let words_of_options = options.iter().map(String::as_str);
    let prefix: Vec<&str> = OURS.into_iter().chain(words_of_options).collect();
    let output = shown(&run(&prefix, &words, &top));
    assert_eq!(output, expected);
    if !options.is_empty() {
        assert_eq!(state(&ov), before);
    }
}

fn option(name: &str, directory: &Path) -> Vec<String> {
    vec![name.into(), text(directory).into()]
}

/// Sockets on the host, in the directory `out`, and from a child process: in another root, the two
/// would share nothing.
const ON_THE_HOST: &str = r#"
    chdir '../../out';
    my $h = bound(SOCK_STREAM, 'hs'); listen $h, 20;
    my $d = bound(SOCK_DGRAM, './hd');
    bound(SOCK_STREAM, $_) for 'hs', 'to_hs', 'none/hs', 'x' x 107;
    symlink '../out/to_hs', '../ov/out_hs';
    my @host = map { meet(SOCK_STREAM, $_) } 'hs', 'to_hs', '../ov/out_hs', 'hd', 'none', '.';
    accept(my $b, $h) or die;
    print 'accepted ', name(getsockname $b), ' ', name(getpeername $b), "
";
    syswrite $host[0], 'bytes'; sysread $b, my $bytes, 9; print "$bytes
";
    e('again', connect($host[0], pack_sockaddr_un('hs')));
    e('twice', bind($d, pack_sockaddr_un('other')));
    my $sender = made(SOCK_DGRAM);
    e('send', send($sender, 'plain', 0, pack_sockaddr_un('hd')));
    e('bind', bind($sender, pack_sockaddr_un('sender')));
    e('send', send($sender, 'named', 0, pack_sockaddr_un('../out/hd')));
    for (1, 2) { my $from = recv($d, my $text, 9, 0); print "$text ", name($from), "
" }
    exit if $links eq 'root';
    accept(my $skipped, $h) for 1, 2;
    if (!fork) { my $c = meet(SOCK_STREAM, 'hs'); syswrite $c, 'from a child'; exit }
    accept(my $child, $h) or die; sysread $child, my $said, 99; wait; print "$said
";
"#;

#[test]
fn paths_of_sockets_in_an_overlay_are_as_on_the_host() {
    same_sockets(
        "sockets-overlay",
        |top| option("--overlay", &top.join("ov")),
        "1",
    );
}

#[test]
fn paths_of_sockets_on_the_host_are_as_on_the_host() {
    same_sockets("sockets-host", |_| Vec::new(), "1");
}

#[test]
fn paths_of_sockets_in_another_root_are_as_on_the_host() {
    same_sockets("sockets-root", |_| option("--root", Path::new("/")), "root");
}

#[test]
fn paths_of_sockets_in_a_mount_are_as_on_the_host() {
    same_sockets(
        "sockets-mount",
        |top| option("--mount", &top.join("ov")),
        "",
    );
}

#[test]
fn paths_of_sockets_on_the_host_are_the_hosts() {
    let words = ["perl", "-e", SCRIPT, "1"];
    let result = |prefix: &[&str]| {
        let (top, ov) = beside("sockets-plain");
        let output = shown(&run(prefix, &words, &top));
        let without_times = |line: &String| line.split_once('[').map(|(file, _)| file.to_owned());
        let left: Vec<_> = state(&ov).iter().filter_map(without_times).collect();
        assert!(left.len() > 9, "{left:?}");
        (output, left)
    };
    assert_eq!(result(&OURS), result(&[]));
}

/// Talks with another process through sockets of the host: as a server and a client, with an
/// option, a descriptor flag and a duplicate from before. A socket that is used cannot go there.
const OUTSIDE: &str = r#"
    use Errno; use Socket; use Fcntl;
    socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die;
    setsockopt($s, SOL_SOCKET, SO_RCVTIMEO, pack('qq', 7, 0)) or die;
    fcntl($s, F_SETFL, O_NONBLOCK) or die; fcntl($s, F_SETFD, 0) or die;
    my $fd = fileno $s;
    bind($s, pack_sockaddr_un('ours')) or die "bind: $!";
    listen($s, 5) or die "listen: $!";
    print 'same number ', fileno $s == $fd, ' flags ', fcntl($s, F_GETFD, 0) + 0, ' nonblocking ',
        (fcntl($s, F_GETFL, 0) & O_NONBLOCK) != 0, ' timeout ',
        join(' ', unpack('qq', getsockopt($s, SOL_SOCKET, SO_RCVTIMEO))), ' name ',
        unpack_sockaddr_un(getsockname $s), "\n";
    fcntl($s, F_SETFL, 0) or die;
    socket(my $c, AF_UNIX, SOCK_STREAM, 0) or die;
    connect($c, pack_sockaddr_un('theirs')) or die "connect: $!";
    syswrite $c, 'ready'; sysread $c, my $text, 99; print "$text\n";
    accept(my $a, $s) or die "accept: $!";
    sysread $a, $text, 99; print "$text\n"; syswrite $a, 'well';
    socketpair(my $one, my $other, AF_UNIX, SOCK_STREAM, 0) or die;
    connect($one, pack_sockaddr_un('theirs')) and die; print $!{EISCONN} ? "connected\n" : "$!\n";
"#;

#[test]
fn a_socket_reaches_other_processes_by_a_path_of_the_host() {
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    let talk = |prefix: &[&str]| {
        let top = folder("sockets-outside");
        let theirs = UnixListener::bind(top.join("theirs")).expect("a socket");
        let ours = top.join("ours");
        let other = std::thread::spawn(move || {
            let (mut client, _) = theirs.accept().expect("a client");
            let mut text = [0; 5];
            client.read_exact(&mut text).expect("a message");
            client.write_all(&text).expect("an answer");
            let mut client = UnixStream::connect(ours).expect("a server");
            client.write_all(b"how are you").expect("a message");
            let mut answer = String::new();
            client.read_to_string(&mut answer).expect("an answer");
            answer
        });
        let output = shown(&run(prefix, &["perl", "-e", OUTSIDE], &top));
        if !output.starts_with("Some(0)\n") {
            panic!("{output}");
        }
        (output, other.join().expect("a thread that does not panic"))
    };
    let expected = talk(&[]);
    assert_eq!(talk(&OURS), expected);
    // Beside an overlay, each path is looked at before.
    let overlay = folder("sockets-overlaid");
    let prefix = [&OURS[..], &["--overlay", text(&overlay)]].concat();
    assert_eq!(talk(&prefix), expected);
}
