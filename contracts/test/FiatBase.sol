// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {TransferBytes, TransferVrs} from "./Eip3009Base.sol";

/// The whole signed interface of FiatToken v2.2: transfer, receive, cancel and permit, each in both overloads.
abstract contract FiatBase is TransferVrs, TransferBytes {
    bytes32 public constant RECEIVE_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant CANCEL_AUTHORIZATION_TYPEHASH =
        keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    bytes32 public constant PERMIT_TYPEHASH =
        keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)");

    mapping(address => uint256) public nonces;

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        _receive(Authorization(from, to, value, validAfter, validBefore, nonce), abi.encodePacked(r, s, v));
    }

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) external {
        _receive(Authorization(from, to, value, validAfter, validBefore, nonce), signature);
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)
        external
        whenNotPaused
    {
        _cancel(authorizer, nonce, _cancelHash(authorizer, nonce), abi.encodePacked(r, s, v));
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, bytes memory signature) external whenNotPaused {
        _cancel(authorizer, nonce, _cancelHash(authorizer, nonce), signature);
    }

    function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s)
        external
    {
        _permit(owner, spender, value, deadline, abi.encodePacked(r, s, v));
    }

    function permit(address owner, address spender, uint256 value, uint256 deadline, bytes memory signature)
        external
    {
        _permit(owner, spender, value, deadline, signature);
    }

    function _receive(Authorization memory a, bytes memory signature)
        private
        whenNotPaused
        notBlacklisted(a.from)
        notBlacklisted(a.to)
    {
        require(a.to == msg.sender, "FiatTokenV2: caller must be the payee");
        _authorize(RECEIVE_WITH_AUTHORIZATION_TYPEHASH, a, signature);
        _move(a.from, a.to, a.value);
    }

    function _cancelHash(address authorizer, bytes32 nonce) private pure returns (bytes32) {
        return keccak256(abi.encode(CANCEL_AUTHORIZATION_TYPEHASH, authorizer, nonce));
    }

    function _permit(address owner, address spender, uint256 value, uint256 deadline, bytes memory signature)
        private
        whenNotPaused
    {
        require(deadline >= block.timestamp, "FiatTokenV2: permit is expired");
        bytes32 structHash = keccak256(abi.encode(PERMIT_TYPEHASH, owner, spender, value, nonces[owner]++, deadline));
        require(_isValidSignature(owner, _digest(structHash), signature), "EIP2612: invalid signature");
        _approve(owner, spender, value);
    }
}
