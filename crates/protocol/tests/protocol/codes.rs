//! The strings on the wire, one by one: clients match on them, so renaming one is a break.

use quittance_protocol::code::Code;

const STRINGS: &[(Code, &str)] = &[
    (Code::InvalidX402Version, "invalid_x402_version"),
    (Code::InvalidPayload, "invalid_payload"),
    (Code::InvalidPaymentRequirements, "invalid_payment_requirements"),
    (Code::UnsupportedScheme, "unsupported_scheme"),
    (Code::InvalidNetwork, "invalid_network"),
    (Code::UnsupportedPayloadType, "unsupported_payload_type"),
    (Code::ExactScheme, "invalid_exact_evm_scheme"),
    (Code::NetworkMismatch, "invalid_exact_evm_network_mismatch"),
    (Code::MissingEip712Domain, "invalid_exact_evm_missing_eip712_domain"),
    (Code::RecipientMismatch, "invalid_exact_evm_recipient_mismatch"),
    (Code::ValueMismatch, "invalid_exact_evm_payload_authorization_value_mismatch"),
    (Code::ValueMismatchV1, "invalid_exact_evm_authorization_value"),
    (Code::ValidBefore, "invalid_exact_evm_payload_authorization_valid_before"),
    (Code::ValidAfter, "invalid_exact_evm_payload_authorization_valid_after"),
    (Code::NonCanonicalSignature, "invalid_exact_evm_non_canonical_signature"),
    (Code::Signature, "invalid_exact_evm_signature"),
    (Code::UndeployedSmartWallet, "invalid_exact_evm_payload_undeployed_smart_wallet"),
    (Code::FactoryNotAllowed, "eip6492_factory_not_allowed"),
    (Code::SmartWalletDeploymentFailed, "smart_wallet_deployment_failed"),
    (Code::AssetNotDeployed, "asset_not_deployed_contract"),
    (Code::Eip3009NotSupported, "invalid_exact_evm_eip3009_not_supported"),
    (Code::NonceAlreadyUsed, "invalid_exact_evm_nonce_already_used"),
    (Code::TokenNameMismatch, "invalid_exact_evm_token_name_mismatch"),
    (Code::TokenVersionMismatch, "invalid_exact_evm_token_version_mismatch"),
    (Code::InsufficientBalance, "invalid_exact_evm_insufficient_balance"),
    (Code::TokenPaused, "invalid_exact_evm_token_paused"),
    (Code::AccountBlacklisted, "invalid_exact_evm_account_blacklisted"),
    (Code::SimulationFailed, "invalid_exact_evm_transaction_simulation_failed"),
    (Code::TransactionFailed, "invalid_exact_evm_transaction_failed"),
    (Code::TransferEventMismatch, "invalid_exact_evm_transfer_event_mismatch"),
    (Code::SettlementPending, "settlement_pending"),
    (Code::DuplicateSettlement, "duplicate_settlement"),
    (Code::PayeeMismatch, "erc8004_payee_mismatch"),
    (Code::UnexpectedVerifyError, "unexpected_verify_error"),
    (Code::UnexpectedSettleError, "unexpected_settle_error"),
];

#[test]
fn no_code_was_renamed_added_or_lost() {
    let now: Vec<_> = Code::ALL.iter().map(|code| (*code, code.as_str())).collect();
    assert_eq!(now, STRINGS);
}

#[test]
fn every_code_reads_back_and_nothing_else_does() {
    for (code, text) in STRINGS {
        assert_eq!(text.parse::<Code>().as_ref(), Ok(code));
        assert_eq!(code.to_string(), *text);
    }
    for other in ["", "invalid_exact_evm_payload_signature", "Invalid_Payload", "invalid_payload "] {
        assert!(other.parse::<Code>().is_err(), "{other}");
    }
}

#[test]
fn a_finer_cause_stands_beside_the_code_sdks_know() {
    for (code, text) in STRINGS {
        match code {
            Code::TokenPaused | Code::AccountBlacklisted => {
                assert_eq!(code.wire(), "invalid_exact_evm_transaction_simulation_failed");
                assert_eq!(code.cause(), Some(*text));
            }
            _ => assert_eq!((code.wire(), code.cause()), (*text, None)),
        }
    }
}
