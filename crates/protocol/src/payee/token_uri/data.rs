//! `data:` URIs (RFC 2397), with what the wild has made of them.

use super::{FILE_BYTES_MAX, InlineForm, TokenUri, TokenUriError, inline};
use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use flate2::read::MultiGzDecoder;
use percent_encoding::percent_decode;
use std::{borrow::Cow, io::Read};

/// Behind `data:`: a media type, parameters, a comma, the data.
pub(super) fn parse(uri: &str) -> Result<TokenUri, TokenUriError> {
    let (header, data) = uri.split_once(',').ok_or(TokenUriError::DataMalformed)?;
    let mut words = header.split(';').map(|word| word.trim_ascii().to_ascii_lowercase());
    if !matches!(words.next().as_deref(), None | Some("" | "application/json")) {
        return Err(TokenUriError::DataMediaType);
    }
    let (mut is_base64, mut is_gzip) = (false, false);
    for word in words {
        match word.split_once('=').unwrap_or((&word, "")) {
            ("base64", "") => is_base64 = true,
            ("enc", "gzip") => is_gzip = true,
            ("enc", _) => return Err(TokenUriError::UnsupportedEncoding),
            ("charset", charset) if !["utf-8", "utf8", "us-ascii"].contains(&charset) => {
                return Err(TokenUriError::UnsupportedEncoding);
            }
            _ => {}
        }
    }
    match (is_base64, is_gzip) {
        (false, false) => inline(InlineForm::Plain, &Cow::from(percent_decode(data.as_bytes()))),
        (false, true) => Err(TokenUriError::UnsupportedEncoding),
        (true, false) if data.trim_ascii_start().starts_with('{') => {
            inline(InlineForm::Base64ButRaw, data.as_bytes())
        }
        (true, false) => inline(InlineForm::Base64, &base64(data)?),
        (true, true) => inline(InlineForm::Gzip, &gunzip(&base64(data)?)?),
    }
}

/// Either alphabet, padded or not, percent-encoded or not, with line breaks or not.
fn base64(data: &str) -> Result<Vec<u8>, TokenUriError> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&STANDARD, CONFIG);
    let symbols: Vec<u8> = percent_decode(data.as_bytes())
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            byte => byte,
        })
        .collect();
    ENGINE.decode(symbols).map_err(|_| TokenUriError::Base64)
}

/// Stops one byte behind the limit: 256 KiB of gzip can hold 256 MiB of zeros.
fn gunzip(data: &[u8]) -> Result<Vec<u8>, TokenUriError> {
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut file = Vec::new();
    MultiGzDecoder::new(data).take(limit).read_to_end(&mut file).map_err(|_| TokenUriError::Gzip)?;
    Ok(file)
}
