// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Erc20Base} from "./Erc20Base.sol";

/// What all EIP-3009 tokens here share: the domain, the nonces, the strict window and the signature rules.
abstract contract Eip3009Base is Erc20Base {
    /// The arguments of an authorization in the order in which they are signed.
    struct Authorization {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    bytes32 public constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    uint256 private constant HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0;

    mapping(address => mapping(bytes32 => bool)) private _used;

    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

    function version() external view returns (string memory) {
        return _version;
    }

    /// True once used and once canceled: the state alone does not tell which.
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool) {
        return _used[authorizer][nonce];
    }

    function _transferWithAuthorization(Authorization memory a, bytes memory signature)
        internal
        whenNotPaused
        notBlacklisted(a.from)
        notBlacklisted(a.to)
    {
        _authorize(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, a, signature);
        _move(a.from, a.to, a.value);
    }

    function _authorize(bytes32 typehash, Authorization memory a, bytes memory signature) internal {
        require(block.timestamp > a.validAfter, "FiatTokenV2: authorization is not yet valid");
        require(block.timestamp < a.validBefore, "FiatTokenV2: authorization is expired");
        _requireUnused(a.from, a.nonce);
        require(
            _isValidSignature(a.from, _digest(keccak256(abi.encode(typehash, a))), signature),
            "FiatTokenV2: invalid signature"
        );
        _used[a.from][a.nonce] = true;
        emit AuthorizationUsed(a.from, a.nonce);
    }

    function _cancel(address authorizer, bytes32 nonce, bytes32 structHash, bytes memory signature) internal {
        _requireUnused(authorizer, nonce);
        require(_isValidSignature(authorizer, _digest(structHash), signature), "FiatTokenV2: invalid signature");
        _used[authorizer][nonce] = true;
        emit AuthorizationCanceled(authorizer, nonce);
    }

    function _requireUnused(address authorizer, bytes32 nonce) private view {
        require(!_used[authorizer][nonce], "FiatTokenV2: authorization is used or canceled");
    }

    function _domainSeparator() internal view returns (bytes32) {
        return keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256(bytes(name)),
                keccak256(bytes(_version)),
                block.chainid,
                address(this)
            )
        );
    }

    function _digest(bytes32 structHash) internal view returns (bytes32) {
        return keccak256(abi.encodePacked(hex"1901", _domainSeparator(), structHash));
    }

    /// The signer's code decides: ecrecover without code, ERC-1271 with code and no way back.
    function _isValidSignature(address signer, bytes32 digest, bytes memory signature)
        internal
        view
        virtual
        returns (bool)
    {
        if (signer.code.length == 0) return _recover(digest, signature) == signer;
        (bool ok, bytes memory answer) = signer.staticcall(
            abi.encodeWithSignature("isValidSignature(bytes32,bytes)", digest, signature)
        );
        return ok && answer.length >= 32 && abi.decode(answer, (bytes32)) == bytes32(bytes4(0x1626ba7e));
    }

    function _recover(bytes32 digest, bytes memory signature) internal pure returns (address signer) {
        require(signature.length == 65, "ECRecover: invalid signature length");
        bytes32 r;
        bytes32 s;
        uint8 v;
        assembly ("memory-safe") {
            r := mload(add(signature, 32))
            s := mload(add(signature, 64))
            v := byte(0, mload(add(signature, 96)))
        }
        require(!_requiresLowS() || uint256(s) <= HALF_ORDER, "ECRecover: invalid signature 's' value");
        require(v == 27 || v == 28, "ECRecover: invalid signature 'v' value");
        signer = ecrecover(digest, v, r, s);
        require(signer != address(0), "ECRecover: invalid signature");
    }

    function _requiresLowS() internal pure virtual returns (bool) {
        return true;
    }
}

abstract contract DomainSeparator is Eip3009Base {
    function DOMAIN_SEPARATOR() external view returns (bytes32) {
        return _domainSeparator();
    }
}

abstract contract TransferVrs is Eip3009Base {
    function transferWithAuthorization(
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
        _transferWithAuthorization(
            Authorization(from, to, value, validAfter, validBefore, nonce), abi.encodePacked(r, s, v)
        );
    }
}

abstract contract TransferBytes is Eip3009Base {
    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) external {
        _transferWithAuthorization(Authorization(from, to, value, validAfter, validBefore, nonce), signature);
    }
}
