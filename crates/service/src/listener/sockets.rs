//! Opens the sockets of a host. A host may resolve to several addresses, and a client may connect to any of them, so
//! all of them are bound or none.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

const BACKLOG: u32 = 1024;
/// How often a free port may turn out to be taken on the host's other address.
const PORT_ATTEMPTS: usize = 16;

/// The addresses that `host` stands for, at least one.
pub(super) async fn resolve(host: &str) -> io::Result<Vec<IpAddr>> {
    // By definition, whatever a resolver or a hosts file makes of it.
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let mut ips = Vec::new();
    for address in tokio::net::lookup_host((bare, 0)).await? {
        if !ips.contains(&address.ip()) {
            ips.push(address.ip());
        }
    }
    if ips.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
    }
    Ok(ips)
}

/// Sockets and where they are.
type Opened = (Vec<TcpListener>, Vec<SocketAddr>);
/// The address that the operating system refused, and why.
type Refused = (SocketAddr, io::Error);

/// Opens all of `ips` on one port, trying further free ports when `port` is 0.
pub(super) fn open_all(ips: &[IpAddr], port: u16) -> Result<Opened, Refused> {
    let mut attempts = if port == 0 { PORT_ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        match open_once(ips, port) {
            Err((_, reason)) if attempts > 0 && reason.kind() == io::ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
}

fn open_once(ips: &[IpAddr], mut port: u16) -> Result<Opened, Refused> {
    let mut opened = (Vec::new(), Vec::new());
    let mut refused = None;
    for &ip in ips {
        let wanted = SocketAddr::new(ip, port);
        match open(wanted) {
            Ok((socket, address)) => {
                port = address.port();
                opened.0.push(socket);
                opened.1.push(address);
            }
            Err(reason) => {
                let final_word =
                    matches!(reason.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied);
                if final_word {
                    return Err((wanted, reason));
                }
                refused.get_or_insert((wanted, reason));
            }
        }
    }
    match refused {
        Some(refused) if opened.0.is_empty() => Err(refused),
        _ => Ok(opened),
    }
}

fn open(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for the last connections of the process before it.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
