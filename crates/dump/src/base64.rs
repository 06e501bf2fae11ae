//! Bytes as base64 (RFC 4648, with padding), written as they come.

use std::io;

use crate::json::Out;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes `bytes`, without quotes.
pub(crate) fn write(out: Out<'_>, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.chunks(3 * 64) {
        let mut text = [b'='; 4 * 64];
        for (four, three) in text.chunks_exact_mut(4).zip(chunk.chunks(3)) {
            let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for (place, digit) in four.iter_mut().enumerate().take(three.len() + 1) {
                *digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            }
        }
        out.write_all(&text[..chunk.len().div_ceil(3) * 4])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_examples_of_the_rfc_and_a_long_one() {
        let text = |bytes: &[u8]| {
            let mut out = Vec::new();
            super::write(&mut out, bytes).expect("a Vec takes everything");
            String::from_utf8(out).expect("ASCII")
        };
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (len, expected) in expected.iter().enumerate() {
            assert_eq!(text(&b"foobar"[..len]), *expected);
        }
        assert_eq!(text(&[0xFF; 193]), format!("{}/w==", "/".repeat(256)));
    }
}
