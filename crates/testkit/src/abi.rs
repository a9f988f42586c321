//! The few interfaces the kit itself calls, and the EIP-712 structs it signs.
//!
//! Declared here and not taken from the product, so that a mistake there cannot hide in its own tests.

#![allow(missing_docs, reason = "names and types are those of the Solidity interfaces")]

use alloy::sol;

sol! {
    /// What a payer signs (EIP-3009).
    #[derive(Debug)]
    struct TransferWithAuthorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    /// What a payer signs to take an authorization back (EIP-3009).
    #[derive(Debug)]
    struct CancelAuthorization {
        address authorizer;
        bytes32 nonce;
    }

    /// A token with EIP-3009 in the shape of USDC 2.2, and an open `mint` for tests.
    #[derive(Debug)]
    interface IToken {
        event Transfer(address indexed from, address indexed to, uint256 value);
        event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
        event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

        function mint(address to, uint256 amount) external;
        function transfer(address to, uint256 amount) external returns (bool);
        function name() external view returns (string);
        function version() external view returns (string);
        function balanceOf(address account) external view returns (uint256);
        function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
        function DOMAIN_SEPARATOR() external view returns (bytes32);
    }

    /// The overload with one `bytes` signature.
    #[derive(Debug)]
    interface IBytesAuthorization {
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce,
            bytes signature
        ) external;
        function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature) external;
    }

    /// The overload with a split signature.
    #[derive(Debug)]
    interface IVrsAuthorization {
        function transferWithAuthorization(
            address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce,
            uint8 v, bytes32 r, bytes32 s
        ) external;
    }

    /// Deploys contract wallets at addresses known beforehand.
    #[derive(Debug)]
    interface IWalletFactory {
        function createWallet(address owner, bytes32 salt) external returns (address wallet);
        function getAddress(address owner, bytes32 salt) external view returns (address wallet);
    }
}
